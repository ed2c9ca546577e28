// Edits as texts: the value before and the value after.

import { el } from "/shared/elements.js";
import { inWords } from "./values.js";

/** Texts for empty values, by the target of the edit. */
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

/** The place of an edit. */
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
export const fullText = (edit) => el("span", { class: "edit-text" }, el("span", { class: "place" }, placeOf(edit), ": "), changeText(edit));
