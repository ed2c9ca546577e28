// Similar photos: the search in progress, the hits, or why there are none. Evidence filters them only on request.

import { byId, el } from "/shared/elements.js";
import { hasOrders, isOrdered, isSelected, toggleHit, valueTexts } from "./orders.js";

function showText(words, ...more) {
  byId("similar").querySelector("ul").replaceChildren();
  byId("similar-words").replaceChildren(words, ...more);
  byId("similar").hidden = false;
}

export function showSearching() {
  showText("Searching…");
}

/** Show why the search failed, with a button to repeat it. */
export function showNotFound(words, repeat) {
  showText(words, el("button", { type: "button", textContent: "Search again", onclick: repeat }));
}

/**
 * Show whether the photos are filtered by the evidence.
 * @param isFiltered whether only photos that agree with the evidence are shown
 * @param hasEvidence whether there is any evidence
 * @param change () => void, switches the filter
 */
export function showFilter(isFiltered, hasEvidence, change) {
  if (!isFiltered && !hasEvidence) return byId("similar-words").replaceChildren(isOrdered() ? "" : "By appearance only.");
  const words = isFiltered ? "Only photos that agree with your entries." : "By appearance only; your entries are ignored.";
  const other = isFiltered ? "Show all" : "Only those that agree";
  return byId("similar-words").replaceChildren(words, el("button", { type: "button", textContent: other, onclick: change }));
}

export function showSimilar(hits, isFiltered) {
  showText(hits.length ? "" : "No photo in the index matches.");
  byId("similar").hidden = hits.length === 0 && !isFiltered;
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
            ...valueTexts(hit).map((textContent) => el("span", { textContent })),
            el("span", { textContent: `similarity ${hit.similarity.toFixed(2)}` }),
          ),
        ),
      );
    }),
  );
}

/** A small picture; if it has values, a tap sets the limit to them. */
function picture(hit, label) {
  const shown = el("img", { src: hit.thumbnail, alt: "", loading: "lazy" });
  if (!hasOrders() || !valueTexts(hit).length) return shown;
  const what = `Only photos above or below ${label}`;
  return el(
    "button",
    { type: "button", "aria-label": what, title: what, "aria-pressed": String(isSelected(hit)), onclick: () => toggleHit(hit) },
    shown,
  );
}
