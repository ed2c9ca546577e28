// Similar photos: that they are looked for, those that were found, or why there are none; and whether they follow what
// was told, which they do only when asked to.

import { byId, el } from "./dom.js";

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
 * Say whether the photos that are shown follow what was told.
 * @param following whether only photos that agree with it were looked for
 * @param told whether anything was told
 * @param change () => void, looks for the others
 */
export function showFollowing(following, told, change) {
  if (!following && !told) return byId("similar-words").replaceChildren("By looks alone.");
  const words = following ? "Only photos that agree with what you said." : "By looks alone: they do not follow what you said.";
  const other = following ? "Show all" : "Only those that agree";
  return byId("similar-words").replaceChildren(words, el("button", { type: "button", textContent: other, onclick: change }));
}

export function showSimilar(hits, following) {
  put(hits.length ? "" : "No photo in the index agrees with it.");
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
          el("img", { src: hit.thumbnail, alt: "", loading: "lazy" }),
          el("figcaption", {}, label, el("span", { textContent: `similarity ${hit.similarity.toFixed(2)}` })),
        ),
      );
    }),
  );
}
