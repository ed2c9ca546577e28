// The row of a class in the grid: its photo and name, the labels of the kind as buttons, and its marks.

import { el } from "/shared/elements.js";
import { cellMarks } from "./cell_marks.js";
import { keepMine } from "./conflict_dialog.js";
import { withKey } from "./keys.js";
import { beliefOf, cellOf, conflictOf, shownValue } from "./model.js";
import { nameElement } from "./name_differences.js";
import { narrow, optionButtons } from "./options.js";
import { inWords, labelsIn } from "./values.js";

/** A row without focus shows all labels if there are at most this many; fewer on a phone. */
const FEW = { wide: 9, narrow: 6 };

/** Draw the row of a class at an index of the list; `row` is undefined if it is not loaded yet. */
export function drawGridRow(view, row, index) {
  const focus = index === view.at;
  if (!row) return el("div", { class: "grid-row" }, el("span", { class: "muted" }, "…"));
  if (row.removed) return el("div", { class: focus ? "grid-row focus" : "grid-row", data: { index } }, el("span", { class: "muted" }, `${row.fine} was removed`));
  const { kind } = view;
  if (!kind) return el("div", { class: focus ? "grid-row focus" : "grid-row", data: { index } }, el("span", {}, row.fine));
  const cell = cellOf(row.fine, kind.name);
  const value = shownValue(row.fine, kind.name);
  const conflict = conflictOf(row.fine, kind.name);
  const classes = ["grid-row", focus && "focus", !value && "unknown", cell.disagreement && "disagreement"];
  return el(
    "div",
    {
      class: classes.filter(Boolean).join(" "),
      role: "row",
      "aria-selected": String(focus),
      data: { fine: row.fine, index },
      onclick: () => view.focus(index),
    },
    row.photo !== null && drawPhoto(view, row, index),
    el("button", { type: "button", class: "grid-name two-lines", tabindex: "-1", onclick: () => view.openClass(row.fine) }, nameElement(row.fine, view.names)),
    el("div", { class: "options" }, conflict ? drawConflict(view, conflict) : drawOptions(view, row, value, index)),
    el("div", { class: "marks" }, cellMarks(cell, view.marks.findingsOf(row.number, kind.name))),
  );
}

/** The approximate width of a letter, and of the padding of a label, in pixels. */
const LETTER_WIDTH = 8;
const LABEL_PADDING = 40;
/** The share of the width of a row that is available for labels. */
const LABELS_SHARE = 0.55;

/** Whether the labels are probably too wide for a row. */
const tooWide = (labels, rows) => labels.join("").length * LETTER_WIDTH + labels.length * LABEL_PADDING > LABELS_SHARE * rows.clientWidth;

function drawPhoto(view, row, index) {
  const enlarge = () => {
    view.focus(index);
    view.actions.enlarge();
  };
  const picture = el("img", { src: `/photos/${row.photo}/small`, alt: "", loading: "lazy" });
  return el("button", { type: "button", class: "tiny", tabindex: "-1", "aria-label": `Photos of ${row.fine}`, title: withKey("enlarge the photos", "enlarge"), onclick: enlarge }, picture);
}

function drawOptions(view, row, value, index) {
  const inFocus = (action) => () => {
    view.focus(index);
    action();
  };
  // If the labels are too wide, several chosen ones are also listed first, so that all are visible.
  const several = labelsIn(value).length > 1 && tooWide(view.kind.labels, view.rows) && el("span", { class: "chosen", title: inWords(value) }, inWords(value));
  const buttons = optionButtons(view.kind, value, {
    open: index === view.at,
    belief: beliefOf(row.fine, view.kind.name),
    suggested: labelsIn(view.suggestionOf(row)?.value ?? null),
    accept: inFocus(() => view.accept()),
    pick: (label, more) => inFocus(() => view.decideLabel(label, more, { stay: true }))(), // the pointer does not move either
    find: inFocus(() => view.actions.find()),
    clear: inFocus(() => view.actions.clear()),
    few: narrow.matches ? FEW.narrow : FEW.wide,
  });
  return [several, ...buttons];
}

function drawConflict(view, conflict) {
  const { yours, theirs, by } = conflict;
  return el(
    "span",
    { class: "conflict slim", role: "alert" },
    `Not saved: ${by ?? "somebody"} chose ${inWords(theirs)}. `,
    el("button", { type: "button", class: "small", onclick: () => keepMine(conflict) }, `Keep ${inWords(yours)}`),
    el("button", { type: "button", class: "small", onclick: () => view.takeTheirs(conflict) }, withKey("Take theirs", "resolve")),
  );
}
