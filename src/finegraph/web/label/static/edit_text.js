// What an edit changed, in words: the value before and the value after.

import { el } from "./dom.js";
import { inWords } from "./values.js";

/** Words for nothing, by what was edited. */
const NOTHING = { note: "no note", photo: "as its class", cell: "unknown" };

const words = (target, value) => {
  if (value === null || value === "") return NOTHING[target] ?? "nothing";
  return ["cell", "photo"].includes(target) ? inWords(value) : String(value);
};

/** The old and the new value. */
export function changeText({ target, before, after }) {
  const old = el("span", { class: "old" }, words(target, before));
  return el("span", { class: "change" }, old, el("span", { class: "arrow", "aria-label": "became" }, " → "), el("strong", {}, words(target, after)));
}

/** What was edited. */
function placeOf({ target, fine, kind, photo }) {
  const of = {
    cell: [fine, kind],
    note: [fine, "note"],
    photo: [photo, kind],
    label: [kind, "label"],
    kind: ["kind"],
    fine: ["class"],
    comparison: [kind, "comparison"],
    graph: ["everything"],
  };
  return of[target].filter(Boolean).join(" · ");
}

/** An edit with its place. */
export const fullText = (edit) => el("span", { class: "told" }, el("span", { class: "place" }, placeOf(edit), ": "), changeText(edit));
