// Conflicts with edits of others: both values, of which the person chooses one. Closing the dialog keeps theirs.
//
// A visible cell shows the conflict of a decision itself. This dialog shows conflicts of cells that are not visible any more,
// of photo labels, of undo, accept and resolve, and of notes of a class that is not open any more.

import { button, el, fill } from "/shared/elements.js";
import { openDialog } from "./dialogs.js";
import { withKey } from "./keys.js";
import { act, cellOf, changed, decide, forgetConflict, kindNamed, putCells } from "./model.js";
import { when } from "./texts.js";
import { inWords, labelsIn } from "./values.js";

const CHOOSABLE = ["cell", "photo", "note"];

/** Whether a person can choose between the values of a conflict. */
export const canChoose = (conflict) => CHOOSABLE.includes(conflict.what) && conflict.version > 0;

/** Open the dialog; `message` says what failed. */
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
  // The dialog may open while the person types: the next key must not press a button.
  dialog.tabIndex = -1;
  dialog.focus();
}

const placeOf = ({ photo, fine, kind, what }) => `${photo ?? fine}, ${kind ?? what}`;

const undoHint = () => el("p", { class: "hint" }, withKey("If the action had other edits too, undo them in the history of their classes", "history"));

function both(conflict, chosen) {
  const { yours, theirs, by, at } = conflict;
  const keep = () => {
    keepMine(conflict);
    chosen(inWords(displayValue(conflict, yours)));
  };
  const take = () => {
    forgetConflict(conflict);
    changed("cells");
    chosen(inWords(displayValue(conflict, theirs)));
  };
  return [
    el("p", {}, el("strong", {}, placeOf(conflict))),
    el(
      "div",
      { class: "row" },
      side("Yours", displayValue(conflict, yours), labelsExist(conflict) ? "Keep mine" : null, keep),
      side([by ?? "Theirs", at && ` ${when(at)}`].filter(Boolean).join(""), displayValue(conflict, theirs), "Take theirs", take),
    ),
  ];
}

/** The value to show; a note becomes a value with its text. */
const displayValue = (conflict, value) => (conflict.what === "note" ? { text: value || "no note" } : value);

/** Whether the labels of the own value still exist; an undo may need labels that were removed. */
const labelsExist = ({ what, kind, yours }) => what === "note" || labelsIn(yours).every((label) => kindNamed(kind)?.labels.includes(label));

/** One of the two values, with the button that chooses it, if possible. */
export function side(who, value, action, onclick) {
  const removed = el("small", { class: "muted" }, "has a label that was removed");
  return el("div", { class: "side" }, el("small", {}, who), el("strong", {}, inWords(value)), action ? button(action, onclick) : removed);
}

/** Repeat the own decision, now that the other value was seen. */
export function keepMine(conflict) {
  const { what, fine, kind, number, yours, theirs, version } = conflict;
  forgetConflict(conflict);
  if (what === "photo") return act("/api/photo", { photo: number, kind, value: yours, seen: version });
  if (what === "note") return act("/api/note", { fine, text: yours ?? "", seen: version });
  putCells([{ ...cellOf(fine, kind), value: theirs, version }]);
  return decide([[fine, kind, yours]]);
}
