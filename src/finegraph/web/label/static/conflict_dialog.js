// What somebody else has changed meanwhile: both values, of which the person chooses one. Closing leaves theirs.
//
// A decision shows its conflict at its cell. Here are those whose cell is out of sight by now, those of photo labels,
// of undoing, accepting and settling, and of notes of a class that is not open any more.

import { button, el, fill, when } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { withKey } from "./keys.js";
import { act, cellOf, changed, decide, forgetConflict, kindNamed, putCells } from "./model.js";
import { inWords, labelsIn } from "./values.js";

const CHOOSABLE = ["cell", "photo", "note"];

/** Whether the values of a conflict can be chosen between. */
export const canChoose = (conflict) => CHOOSABLE.includes(conflict.what) && conflict.version > 0;

/** Let the person choose; `message` says what could not be done. */
export function openConflicts(edit, conflicts, message) {
  const { body, close, dialog } = openDialog("Changed by somebody else");
  let left = conflicts.length;
  const lines = conflicts.map((conflict) => {
    const line = el("section", { class: "conflict" });
    const chosen = (text) => {
      fill(line, el("p", {}, `${placeOf(conflict)}: ${text}`));
      if (--left === 0) close();
    };
    fill(line, ...both(conflict, chosen));
    return line;
  });
  fill(body, el("p", {}, `Nothing was changed: ${message}.`), edit.path === "/api/undo" && undoHint(), lines);
  // The window opens while somebody types: the next key must not choose for them.
  dialog.tabIndex = -1;
  dialog.focus();
}

const placeOf = ({ photo, fine, kind, what }) => `${photo ?? fine}, ${kind ?? what}`;

const undoHint = () => el("p", { class: "hint" }, withKey("If the action had other edits too, undo them in the history of their classes", "history"));

function both(conflict, chosen) {
  const { yours, theirs, by, at } = conflict;
  const keep = () => {
    keepMine(conflict);
    chosen(inWords(told(conflict, yours)));
  };
  const take = () => {
    forgetConflict(conflict);
    changed("cells");
    chosen(inWords(told(conflict, theirs)));
  };
  return [
    el("p", {}, el("strong", {}, placeOf(conflict))),
    el(
      "div",
      { class: "row" },
      side("Yours", told(conflict, yours), isThere(conflict) ? "Keep mine" : null, keep),
      side([by ?? "Theirs", at && ` ${when(at)}`].filter(Boolean).join(""), told(conflict, theirs), "Take theirs", take),
    ),
  ];
}

/** A value in words, or the text of a note. */
const told = (conflict, value) => (conflict.what === "note" ? { text: value || "no note" } : value);

/** Whether the labels of one's own value are still there; an undo may want back what is gone by now. */
const isThere = ({ what, kind, yours }) => what === "note" || labelsIn(yours).every((label) => kindNamed(kind)?.labels.includes(label));

/** One of both values, with the button that chooses it if it can be chosen. */
export function side(who, value, action, onclick) {
  const gone = el("small", { class: "muted" }, "has a label that is gone");
  return el("div", { class: "side" }, el("small", {}, who), el("strong", {}, inWords(value)), action ? button(action, onclick) : gone);
}

/** Decide again, now that the other value was seen. */
export function keepMine(conflict) {
  const { what, fine, kind, number, yours, theirs, version } = conflict;
  forgetConflict(conflict);
  if (what === "photo") return act("/api/photo", { photo: number, kind, value: yours, seen: version });
  if (what === "note") return act("/api/note", { fine, text: yours ?? "", seen: version });
  putCells([{ ...cellOf(fine, kind), value: theirs, version }]);
  return decide([[fine, kind, yours]]);
}
