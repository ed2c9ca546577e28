// The row of a kind in the class view: its labels as buttons, its marks, and its conflict.

import { el } from "/shared/elements.js";
import { cellMarks } from "./cell_marks.js";
import { keepMine, side } from "./conflict_dialog.js";
import { withKey } from "./keys.js";
import { beliefOf, cellOf, conflictOf, shownValue } from "./model.js";
import { groupOf, optionButtons } from "./options.js";
import { labelsIn } from "./values.js";

/** More labels are shown in columns. */
const MAX_INLINE_LABELS = 12;

/** The rules of the graph check about single cells; the panel shows findings about the whole kind. */
const CELL_RULES = new Set(["misspelt-label", "alike-names"]);

/** Draw the row of a kind for the class of a view. */
export function drawKindRow(view, kind, index) {
  const { fine, findings } = view.row;
  const [of, short] = groupOf(kind.name);
  const cell = cellOf(fine, kind.name);
  const open = index === view.kindAt;
  const photo = open ? view.strip.photo : undefined; // it is being labelled
  const value = photo ? view.strip.label(photo) : shownValue(fine, kind.name);
  const buttons = optionButtons(kind, value, {
    open,
    belief: beliefOf(fine, kind.name),
    suggested: labelsIn(view.suggestion(kind.name)?.value ?? null),
    accept: () => view.accept(view.suggestion(kind.name)),
    pick: (label, more) => {
      view.focusKind(index);
      view.decideLabel(label, more);
    },
    find: () => view.actions.find(),
    clear: () => view.actions.clear(),
  });
  const classes = ["kind", open && "focus", !value && "unknown", cell.disagreement && "disagreement"];
  const doubts = findings.filter((found) => found.kind === kind.name && CELL_RULES.has(found.rule)).map((found) => found.message);
  const conflict = conflictOf(fine, kind.name);
  return el(
    "div",
    { class: classes.filter(Boolean).join(" "), data: { kind: kind.name }, onclick: () => view.focusKind(index) },
    el("div", { class: "kind-name", title: kind.name }, of ? short : kind.name),
    el("div", { class: open && kind.labels.length > MAX_INLINE_LABELS ? "options many" : "options" }, buttons),
    el("div", { class: "marks" }, cellMarks(cell, doubts, { confidence: true })),
    conflict && drawConflict(view, conflict),
  );
}

function drawConflict(view, conflict) {
  const { yours, theirs, by } = conflict;
  const stop = (event) => event.stopPropagation(); // the row would take it as a click on the kind
  return el(
    "div",
    { class: "conflict", role: "alert", onclick: stop },
    el("p", {}, `Not saved: ${by ?? "somebody"} has changed this.`),
    el(
      "div",
      { class: "row" },
      side("You", yours, "Keep mine", () => keepMine(conflict)),
      side(by ?? "Theirs", theirs, withKey("Take theirs", "resolve"), () => view.takeTheirs(conflict)),
    ),
  );
}
