// The grid: all classes with one kind, for fast labelling by keyboard. Choosing a label moves to the next class.

import { button, el, fill } from "/shared/elements.js";
import { setAddress } from "./address.js";
import { choices, FILTERS, near, ORDERS, searchField } from "./class_list.js";
import { say } from "./dialogs.js";
import { findLabel } from "./find_label.js";
import { GridMarks } from "./grid_marks.js";
import { drawGridRow } from "./grid_row.js";
import { showHistory } from "./history.js";
import { withKey } from "./keys.js";
import { get } from "./label_api.js";
import { openPhotos } from "./lightbox.js";
import { accept, beliefOf, cellOf, changed, confirm, conflictOf, decide, forgetConflict, kindNamed, model, progressOf, putCells, putRows, renaming, resolve, shownValue } from "./model.js";
import { NameDifferences, nameDifferences, nameElement } from "./name_differences.js";
import { openNames } from "./names_dialog.js";
import { keyed, narrow, orderButton } from "./options.js";
import { openSuggestions } from "./suggestions_dialog.js";
import { count, percentOf } from "./texts.js";
import { choose, same } from "./values.js";
import { VirtualList } from "./virtual_list.js";

const PREFETCH_ROWS = 50;

export class GridView {
  /** @param {{openClass: (fine: string) => void, toggleOrder: () => void}} go opens a class; toggles the order of labels */
  constructor(root, go) {
    Object.assign(this, { ...go, kindName: null, at: 0, names: new NameDifferences(), query: { show: "all", order: "graph", search: "" } });
    this.search = searchField(this);
    this.total = el("span", { class: "muted" });
    this.known = el("div", { class: "grid-progress" });
    this.likeliest = el("span", {});
    this.filter = choices("Filter", FILTERS, "all", (show) => this.ask({ show }));
    this.order = choices("Order", ORDERS, "graph", (order) => this.ask({ order }));
    this.kinds = el("div", { class: "tabs", role: "tablist", "aria-label": "Kinds" });
    this.rows = el("div", { class: "grid-rows", role: "grid", "aria-label": "Classes" });
    const all = button("Suggestions …", () => this.actions.acceptAll(), { class: "quiet small", title: withKey("accept many suggestions at once", "acceptAll") });
    const tools = el("div", { class: "grid-tools" }, this.search, this.filter, this.order, this.total, all, this.likeliest, this.known);
    this.root = el("div", { class: "grid-view", hidden: true }, this.kinds, tools, this.rows);
    root.append(this.root);
    this.list = new VirtualList(this.rows, narrow.matches ? 92 : 46, (page) => this.load(page), (row, at) => drawGridRow(this, row, at), () => this.renew());
    this.list.taken = putRows;
    this.list.shown = () => this.marks.ask();
    this.marks = new GridMarks(
      () => ({ kind: this.kindName, numbers: this.root.hidden || !this.kind ? [] : this.list.drawnRows().flatMap((row) => row.number ?? []) }),
      (numbers) => this.list.mark((row) => numbers.has(row?.number)),
    );
    narrow.addEventListener("change", () => {
      this.list.rowHeight = narrow.matches ? 92 : 46;
      this.list.mark(() => true);
    });
  }

  get kind() {
    return kindNamed(this.kindName) ?? model.kinds[0];
  }

  /** Show the grid of a kind, at a class if its number is given. */
  async open(kindName, { number } = {}) {
    this.kindName = kindNamed(kindName ?? this.kindName)?.name ?? model.kinds[0]?.name;
    if (model.contradicted && !this.begun) this.query.order = "attention";
    this.begun = true;
    this.drawKinds();
    await this.ask({}, number);
  }

  /** Show the same kind and class after names have changed. `place` is the result of `place()` before; `classes`: the list
   * may have other classes now. */
  async reopen(place, classes) {
    const kind = model.kinds.find((one) => one.number === place.kind);
    this.kindName = (kind ?? model.kinds[0])?.name;
    this.drawKinds();
    if (!kind) return this.ask({});
    this.busy += 1;
    try {
      if (classes || !(await this.list.reload(this.at))) await this.stay();
    } finally {
      this.busy -= 1;
    }
  }

  /** The class, kind and labels that the next key is for. */
  place() {
    return { number: this.row?.number, kind: this.kind?.number, labels: this.kind?.label_numbers ?? [] };
  }

  /** Reload the list and focus the same class, or the one that came after it. */
  async stay() {
    const place = await this.list.reset(near(this.list, this.at));
    if (place === undefined) return;
    await this.goTo(Math.max(0, Math.min(place ?? this.at, this.list.total - 1)));
  }

  /** Focus a row of the list that may not be loaded yet. */
  async goTo(place) {
    this.at = place;
    await this.list.rowAt(place);
    this.list.mark(() => true);
    this.list.reveal(place);
  }

  /** Load a new list after the server has dropped the old one. Waiting keys were for the focused class. */
  async renew() {
    const before = this.row?.number;
    this.busy += 1;
    try {
      await this.stay();
    } catch (problem) {
      say(problem.message, { fault: true });
    } finally {
      this.busy -= 1;
    }
    changed(this.row?.number === before ? "ready" : "lost");
  }

  drawKinds() {
    setAddress("grid", this.kindName ?? "");
    const names = nameDifferences(model.kinds.map((kind) => kind.name));
    const tabs = model.kinds.map((kind) =>
      el("button", { type: "button", role: "tab", tabindex: "-1", "aria-selected": String(kind.name === this.kindName), onclick: () => this.open(kind.name) }, nameElement(kind.name, names)),
    );
    this.kinds.replaceChildren(...tabs);
    this.kinds.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.drawProgress();
  }

  drawProgress() {
    fill(this.likeliest, orderButton(this.toggleOrder));
    const progress = progressOf(this.kindName);
    if (!progress) return;
    this.known.replaceChildren(
      el("progress", { max: progress.total, value: progress.known, "aria-label": "known classes" }),
      el("span", { class: "muted" }, `${percentOf(progress.known, progress.total)} known`),
    );
  }

  async load(asked) {
    const page = await get("/api/classes", { ...this.query, kind: this.kindName, ...asked });
    this.total.textContent = count(page.total, "class", "classes");
    if (asked.list === undefined) this.names.clear();
    if (this.names.add(page.rows.map((row) => row.fine))) this.list.mark(() => true);
    return page;
  }

  async ask(change, number) {
    Object.assign(this.query, change);
    this.filter.value = this.query.show;
    this.order.value = this.query.order;
    this.at = 0;
    this.rows.scrollTop = 0;
    this.busy += 1;
    try {
      const place = await this.list.reset(number === undefined ? undefined : [number]);
      if (place) await this.goTo(place);
    } finally {
      this.busy -= 1;
    }
    changed("ready");
  }

  /** The number of loads in progress. */
  busy = 0;

  /** Whether rows are being loaded; keys wait for them. */
  get loading() {
    return this.busy > 0;
  }

  searchKey(event) {
    event.stopPropagation();
    if (!["Enter", "Escape", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Escape") {
      this.search.value = "";
      this.ask({ search: "" });
    }
    this.search.blur();
  }

  takeTheirs(conflict) {
    const { fine, kind, theirs, version, by, at } = conflict;
    forgetConflict(conflict);
    putCells([{ ...cellOf(fine, kind), version, value: theirs, by, at }]);
    this.list.mark((row) => row?.fine === fine);
  }

  // ---- deciding ------------------------------------------------------------------------------------------------------

  /** The focused class, unless it was removed meanwhile. */
  get row() {
    const row = this.list.row(this.at);
    return row?.removed ? undefined : row;
  }

  /** Whether the view shows a cell, and with it a conflict about it. */
  shows(fine, kind) {
    return kind === this.kindName && this.list.isVisible((row) => row?.fine === fine);
  }

  focus(index) {
    if (index < 0 || index >= this.list.total) return;
    const before = this.at;
    this.at = index;
    this.list.mark((_, other) => other === before || other === index);
    this.list.rowAt(Math.min(index + PREFETCH_ROWS, this.list.total - 1)).catch(() => {});
    if (!this.list.row(index)) this.waitFor(index);
    this.list.reveal(index);
    this.rows.querySelector(".focus .option[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  async waitFor(index) {
    this.busy += 1;
    await this.list.rowAt(index).catch(() => {});
    this.busy -= 1;
    this.list.later();
    changed("ready");
  }

  decideLabel(label, more, { stay = false } = {}) {
    const { row, kind } = this;
    if (!row) return this.skipRemoved();
    decide([[row.fine, kind.name, choose(kind, shownValue(row.fine, kind.name), label, more)]]);
    if (!more && !stay && kind.mode !== "all") this.focus(this.at + 1);
  }

  /** Move on from a removed class. */
  skipRemoved() {
    if (this.list.row(this.at)?.removed) this.focus(this.at + 1);
  }

  choose(index, more) {
    const label = keyed(this.kind, this.row && beliefOf(this.row.fine, this.kind.name))[index];
    if (label !== undefined) this.decideLabel(label, more);
  }

  changeKind(step) {
    const at = model.kinds.indexOf(this.kind) + step;
    if (at >= 0 && at < model.kinds.length) this.open(model.kinds[at].name);
  }

  actions = {
    next: () => this.focus(this.at + 1),
    previous: () => this.focus(this.at - 1),
    right: () => this.changeKind(1),
    left: () => this.changeKind(-1),
    save: () => this.saveAndContinue(),
    clear: () => this.row && decide([[this.row.fine, this.kindName, null]]),
    search: () => {
      this.search.focus();
      this.search.select();
    },
    filter: () => this.nextFilter(),
    find: () => this.find(),
    accept: () => this.accept(),
    acceptAll: () => openSuggestions({ kind: this.kindName }),
    resolve: () => this.resolve(),
    enlarge: () => this.enlarge(),
    note: () => this.row && this.openClass(this.row.fine),
    history: () => this.row && showHistory(this.row.fine, this.kindName),
    names: () => openNames({ kind: this.kindName, fine: this.row?.fine }),
  };

  /** Find a label by name for the focused class; a new label is chosen only if the focus has not moved. */
  find() {
    const place = () => JSON.stringify([this.row?.number, this.kind?.number]);
    const before = place();
    findLabel(this.kind, (label) => {
      if (place() !== before) return false;
      this.decideLabel(label, this.kind.mode === "all");
      return true;
    });
  }

  /** Enlarge the photos of the focused class. */
  async enlarge() {
    const { row } = this;
    if (!row?.photo) return say("This class has no photos.");
    const found = await get("/api/class", { fine: row.fine, number: row.number }).catch((problem) => problem);
    if (found instanceof Error) return say(found.message, { fault: true });
    openPhotos(found.photos, 0, { title: found.fine });
  }

  nextFilter() {
    const names = Object.keys(FILTERS);
    const show = names[(names.indexOf(this.query.show) + 1) % names.length];
    say(`Filter: ${FILTERS[show]}`);
    this.ask({ show });
  }

  /** Enter: confirm the shown value as a decision, then go to the next class. */
  saveAndContinue() {
    if (!this.row) return this.skipRemoved();
    confirm(this.row.fine, this.kindName);
    this.focus(this.at + 1);
  }

  /** The suggestion for a class: that of the list, or a newer one derived from names. */
  suggestionOf(row) {
    return row.suggestion ?? this.marks.suggestionOf(row.number, this.kindName);
  }

  accept() {
    const suggestion = this.row && this.suggestionOf(this.row);
    if (!suggestion || same(suggestion.value, shownValue(suggestion.fine, suggestion.kind))) {
      return say("There is no suggestion here.");
    }
    accept(suggestion);
    this.focus(this.at + 1);
  }

  resolve() {
    const cell = this.row && cellOf(this.row.fine, this.kindName);
    const conflict = cell && conflictOf(cell.fine, cell.kind);
    if (conflict) return this.takeTheirs(conflict);
    if (!cell?.disagreement) return say("Nobody disagrees here.");
    resolve(cell.fine, cell.kind, shownValue(cell.fine, cell.kind));
  }

  changed(what, detail) {
    if (renaming.held) return; // the rows are about to be reloaded with the new names
    if (what === "progress") return this.drawProgress();
    if (what === "saved" && detail.edit.path === "/api/undo") {
      say(detail.answer.text);
      this.revealUndone(detail.answer.cells ?? []);
    }
    if (["saved", "others"].includes(what)) this.marks.ask();
    if (what === "cells" && !detail) this.drawProgress();
    if (["cells", "saved", "refused", "others"].includes(what)) this.redraw(detail?.places);
  }

  /** Redraw the rows of cells; without cells, all visible rows. */
  redraw(places) {
    const classes = places && new Set(places.map(({ fine }) => fine));
    this.list.mark((row) => !classes || classes.has(row?.fine));
  }

  /** After an undo, focus the row of the cell. */
  revealUndone(cells) {
    const cell = cells.find((one) => one.kind === this.kindName);
    if (!cell) return;
    for (const [index, row] of this.list.loaded()) if (row.fine === cell.fine) return this.focus(index);
  }
}
