// Similar photos: the search in progress, the photos found, or why there are none. Evidence filters them only on request.

import { byId, el } from "./dom.js";
import { hasOrders, isOrdered, isTaken, placesOf, toggleHit } from "./orders.js";

function put(words, ...more) {
  byId("similar").querySelector("ul").replaceChildren();
  byId("similar-words").replaceChildren(words, ...more);
  byId("similar").hidden = false;
}

export function showSeeking() {
  put("Looking for them…");
}

/** Say why none were found, with a way to look again. */
export function showNotFound(words, again) {
  put(words, el("button", { type: "button", textContent: "Look again", onclick: again }));
}

/**
 * Show whether the photos are filtered by the evidence.
 * @param following whether only photos that agree with the evidence are shown
 * @param hasEvidence whether there is any evidence
 * @param change () => void, switches the filter
 */
export function showFollowing(following, hasEvidence, change) {
  if (!following && !hasEvidence) return byId("similar-words").replaceChildren(isOrdered() ? "" : "By looks alone.");
  const words = following ? "Only photos that agree with what you said." : "By looks alone: they do not follow what you said.";
  const other = following ? "Show all" : "Only those that agree";
  return byId("similar-words").replaceChildren(words, el("button", { type: "button", textContent: other, onclick: change }));
}

export function showSimilar(hits, following) {
  put(hits.length ? "" : "No photo of the index is so.");
  byId("similar").hidden = hits.length === 0 && !following;
  byId("similar").querySelector("ul").replaceChildren(
    ...hits.map((hit) => {
      const label = hit.label ?? (hit.guess ? `perhaps ${hit.guess}` : hit.name);
      return el(
        "li",
        {},
        el(
          "figure",
          {},
          picture(hit, label),
          el(
            "figcaption",
            {},
            label,
            ...placesOf(hit).map((textContent) => el("span", { textContent })),
            el("span", { textContent: `similarity ${hit.similarity.toFixed(2)}` }),
          ),
        ),
      );
    }),
  );
}

/** A small picture; with numbers or orders it can be tapped, so that others are above or below it. */
function picture(hit, label) {
  const shown = el("img", { src: hit.thumbnail, alt: "", loading: "lazy" });
  if (!hasOrders() || !placesOf(hit).length) return shown;
  const what = `Only photos above or below ${label}`;
  return el(
    "button",
    { type: "button", "aria-label": what, title: what, "aria-pressed": String(isTaken(hit)), onclick: () => toggleHit(hit) },
    shown,
  );
}
