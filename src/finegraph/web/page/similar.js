// Similar photos: that they are looked for, those that were found, or why there are none.

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

export function showSimilar(hits) {
  put("");
  byId("similar").hidden = hits.length === 0;
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
