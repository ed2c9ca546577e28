// The row of a class in the grid: its photo and name, the labels of the kind as buttons, and its marks.

import { cellMarks } from "./cell_marks.js";
import { keepMine } from "./conflict_dialog.js";
import { el } from "./dom.js";
import { withKey } from "./keys.js";
import { beliefOf, cellOf, conflictOf, shownValue } from "./model.js";
import { narrow, optionButtons } from "./options.js";
import { wholeName } from "./unlike_names.js";
import { inWords, labelsIn } from "./values.js";

/** How many labels of a row are shown that is not in focus; fewer on a phone. */
const FEW = { wide: 9, narrow: 6 };

/** The row of a class at a place of the list; a class that is not loaded yet has no `row`. */
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
    el("button", { type: "button", class: "grid-name two-lines", tabindex: "-1", onclick: () => view.openClass(row.fine) }, wholeName(row.fine, view.names)),
    el("div", { class: "options" }, conflict ? drawConflict(view, conflict) : drawOptions(view, row, value, index)),
    el("div", { class: "marks" }, cellMarks(cell, view.marks.of(row.number, kind.name))),
  );
}

/** About how wide a letter of a label is, and what is around a label. */
const LETTER = 8;
const AROUND = 40;
/** The share of a row that its labels have. */
const SHARE = 0.55;

/** Whether labels beside each other are probably too wide for a row. */
const tooWide = (labels, rows) => labels.join("").length * LETTER + labels.length * AROUND > SHARE * rows.clientWidth;

function drawPhoto(view, row, index) {
  const enlarge = () => {
    view.focus(index);
    view.actions.enlarge();
  };
  const image = el("img", { src: `/photos/${row.photo}/small`, alt: "", loading: "lazy" });
  return el("button", { type: "button", class: "tiny", tabindex: "-1", "aria-label": `Photos of ${row.fine}`, title: withKey("show the photos large", "enlarge"), onclick: enlarge }, image);
}

function drawOptions(view, row, value, index) {
  const inFocus = (action) => () => {
    view.focus(index);
    action();
  };
  // Of several labels not all may be in sight; then they stand together before the others.
  const several = labelsIn(value).length > 1 && tooWide(view.kind.labels, view.rows) && el("span", { class: "chosen", title: inWords(value) }, inWords(value));
  const buttons = optionButtons(view.kind, value, {
    open: index === view.at,
    belief: beliefOf(row.fine, view.kind.name),
    suggested: labelsIn(view.suggestionOf(row)?.value ?? null),
    accept: inFocus(() => view.accept()),
    pick: (label, more) => inFocus(() => view.decideLabel(label, more, { stay: true }))(), // the pointer stays too
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
