// The grid: all classes against one kind, made to be swept by keyboard. Choosing a label goes on to the next class.

import { get } from "./api.js";
import { choices, FILTERS, ORDERS } from "./class_list.js";
import { count, el, percent } from "./dom.js";
import { say } from "./dialogs.js";
import { findLabel } from "./find_label.js";
import { showHistory } from "./history.js";
import { withKey } from "./keys.js";
import { act, cellOf, changed, conflictOf, decide, forgetConflict, isPending, kindNamed, model, progressOf, putCells, shownValue } from "./model.js";
import { openNames } from "./names_dialog.js";
import { keyed, narrow, optionButtons } from "./options.js";
import { openSuggestions } from "./suggestions_dialog.js";
import { afterTyping } from "./typing.js";
import { choose, inWords, labelsIn, same } from "./values.js";
import { VirtualList } from "./virtual_list.js";

const AHEAD = 50;

export class GridView {
  /** @param {(fine: string) => void} openClass leave the grid for one class */
  constructor(root, openClass) {
    Object.assign(this, { openClass, kindName: null, at: 0, query: { show: "all", order: "graph", search: "" } });
    this.search = el("input", {
      type: "search",
      placeholder: "Search classes  /",
      "aria-label": "Search classes",
      oninput: afterTyping((event) => this.ask({ search: event.target.value })),
      onkeydown: (event) => this.searchKey(event),
    });
    this.total = el("span", { class: "muted" });
    this.known = el("div", { class: "grid-progress" });
    this.filter = choices("Filter", FILTERS, "all", (show) => this.ask({ show }));
    this.order = choices("Order", ORDERS, "graph", (order) => this.ask({ order }));
    this.kinds = el("div", { class: "tabs", role: "tablist", "aria-label": "Kinds" });
    this.rows = el("div", { class: "grid-rows", role: "grid", "aria-label": "Classes" });
    const tools = el("div", { class: "grid-tools" }, this.search, this.filter, this.order, this.total, this.known);
    this.root = el("div", { class: "grid-view", hidden: true }, this.kinds, tools, this.rows);
    root.append(this.root);
    this.list = new VirtualList(this.rows, narrow.matches ? 92 : 46, (offset, limit) => this.load(offset, limit), (row, at) => this.draw(row, at));
    narrow.addEventListener("change", () => {
      this.list.rowHeight = narrow.matches ? 92 : 46;
      this.list.mark(() => true);
    });
  }

  get kind() {
    return kindNamed(this.kindName) ?? model.kinds[0];
  }

  /** Show the grid of a kind. */
  async open(kindName) {
    this.kindName = kindNamed(kindName ?? this.kindName)?.name ?? model.kinds[0]?.name;
    if (model.contradicted && !this.begun) this.query.order = "attention";
    this.begun = true;
    this.drawKinds();
    history.replaceState(null, "", `#/grid/${encodeURIComponent(this.kindName ?? "")}`);
    await this.ask({});
  }

  drawKinds() {
    const tabs = model.kinds.map((kind) =>
      el("button", { type: "button", role: "tab", tabindex: "-1", "aria-selected": String(kind.name === this.kindName), onclick: () => this.open(kind.name) }, kind.name),
    );
    this.kinds.replaceChildren(...tabs);
    this.kinds.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.drawProgress();
  }

  drawProgress() {
    const progress = progressOf(this.kindName);
    if (!progress) return;
    this.known.replaceChildren(
      el("progress", { max: progress.total, value: progress.known, "aria-label": "known classes" }),
      el("span", { class: "muted" }, `${percent(progress.known, progress.total)} known`),
    );
  }

  async load(offset, limit) {
    const page = await get("/api/classes", { ...this.query, kind: this.kindName, offset, limit });
    for (const row of page.rows) putCells(Object.values(row.cells));
    this.total.textContent = count(page.total, "class", "classes");
    return page;
  }

  async ask(change) {
    Object.assign(this.query, change);
    this.filter.value = this.query.show;
    this.order.value = this.query.order;
    this.at = 0;
    this.rows.scrollTop = 0;
    this.loading = true;
    await this.list.reset().finally(() => (this.loading = false));
    changed("ready");
  }

  /** Whether other rows are on their way; keys wait for them. */
  loading = false;

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

  draw(row, index) {
    const focus = index === this.at;
    if (!row) return el("div", { class: "grid-row" }, el("span", { class: "muted" }, "…"));
    const { kind } = this;
    const cell = cellOf(row.fine, kind.name);
    const value = shownValue(row.fine, kind.name);
    const suggested = labelsIn(row.suggestion?.value ?? null);
    const conflict = conflictOf(row.fine, kind.name);
    const pick = (label, more) => {
      this.at = index;
      this.decideLabel(label, more);
    };
    const find = () => {
      this.focus(index);
      this.actions.find();
    };
    return el(
      "div",
      {
        class: ["grid-row", focus && "focus", !value && "unknown", cell.disagreement && "disagreement"].filter(Boolean).join(" "),
        role: "row",
        "aria-selected": String(focus),
        data: { fine: row.fine, index },
        onclick: () => this.focus(index),
      },
      row.photo !== null && el("img", { class: "tiny", src: `/photos/${row.photo}/small`, alt: "", loading: "lazy" }),
      el("button", { type: "button", class: "grid-name", title: row.fine, tabindex: "-1", onclick: () => this.openClass(row.fine) }, row.fine),
      el("div", { class: "options" }, conflict ? this.drawConflict(conflict) : optionButtons(kind, value, { open: focus, suggested, pick, find, few: narrow.matches ? 6 : 9 })),
      el(
        "div",
        { class: "marks" },
        isPending(row.fine, kind.name) && el("span", { class: "mark saving", title: "being saved" }, "…"),
        cell.disagreement && el("span", { class: "mark warn" }, "disagree"),
        cell.version > 0 && el("span", { class: "who" }, cell.by),
      ),
    );
  }

  drawConflict(conflict) {
    const { fine, kind, yours, theirs, by, version } = conflict;
    const keep = () => {
      putCells([{ ...cellOf(fine, kind), version, value: theirs }]);
      decide([[fine, kind, yours]]);
    };
    return el(
      "span",
      { class: "conflict slim", role: "alert" },
      `Not saved: ${by ?? "somebody"} chose ${inWords(theirs)}. `,
      el("button", { type: "button", class: "small", onclick: keep }, `Keep ${inWords(yours)}`),
      el("button", { type: "button", class: "small", onclick: () => this.takeTheirs(conflict) }, withKey("Take theirs", "save")),
    );
  }

  takeTheirs({ fine, kind, theirs, version, by, at }) {
    forgetConflict(fine, kind);
    putCells([{ ...cellOf(fine, kind), version, value: theirs, by, at }]);
    this.list.mark((row) => row?.fine === fine);
  }

  // ---- deciding ------------------------------------------------------------------------------------------------------

  get row() {
    return this.list.row(this.at);
  }

  /** Whether a cell is in sight, and with it a conflict about it. */
  shows(fine, kind) {
    return kind === this.kindName && this.list.inSight((row) => row?.fine === fine);
  }

  focus(index) {
    if (index < 0 || index >= this.list.total) return;
    const before = this.at;
    this.at = index;
    this.list.mark((_, other) => other === before || other === index);
    this.list.rowAt(Math.min(index + AHEAD, this.list.total - 1)).catch(() => {});
    if (!this.row) this.waitFor(index);
    this.list.reveal(index);
    this.rows.querySelector(".focus .option[aria-pressed=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  async waitFor(index) {
    this.loading = true;
    await this.list.rowAt(index).catch(() => {});
    this.loading = false;
    this.list.later();
    changed("ready");
  }

  decideLabel(label, more) {
    const { row, kind } = this;
    if (!row) return;
    decide([[row.fine, kind.name, choose(kind, shownValue(row.fine, kind.name), label, more)]]);
    if (!more && kind.mode !== "all") this.focus(this.at + 1);
  }

  choose(index, more) {
    const label = keyed(this.kind)[index];
    if (label !== undefined) this.decideLabel(label, more);
  }

  turn(step) {
    const at = model.kinds.indexOf(this.kind) + step;
    if (at >= 0 && at < model.kinds.length) this.open(model.kinds[at].name);
  }

  actions = {
    next: () => this.focus(this.at + 1),
    previous: () => this.focus(this.at - 1),
    right: () => this.turn(1),
    left: () => this.turn(-1),
    save: () => this.saveAndGoOn(),
    clear: () => this.row && decide([[this.row.fine, this.kindName, null]]),
    search: () => {
      this.search.focus();
      this.search.select();
    },
    filter: () => this.nextFilter(),
    find: () => findLabel(this.kind, (label) => this.decideLabel(label, this.kind.mode === "all")),
    accept: () => this.accept(),
    acceptAll: () => openSuggestions({ kind: this.kindName }),
    resolve: () => this.resolve(),
    note: () => this.row && this.openClass(this.row.fine),
    history: () => this.row && showHistory(this.row.fine, this.kindName),
    names: () => openNames({ kind: this.kindName, fine: this.row?.fine }),
  };

  nextFilter() {
    const names = Object.keys(FILTERS);
    const show = names[(names.indexOf(this.query.show) + 1) % names.length];
    say(`Filter: ${FILTERS[show]}`);
    this.ask({ show });
  }

  saveAndGoOn() {
    if (!this.row) return;
    const { fine } = this.row;
    const conflict = conflictOf(fine, this.kindName);
    if (conflict) return this.takeTheirs(conflict);
    const value = shownValue(fine, this.kindName);
    const voted = cellOf(fine, this.kindName).votes[localStorage.getItem("finegraph.person")] !== undefined;
    if (value !== null && !voted && !isPending(fine, this.kindName)) decide([[fine, this.kindName, value]]);
    this.focus(this.at + 1);
  }

  accept() {
    const suggestion = this.row?.suggestion;
    if (!suggestion || same(suggestion.value, shownValue(suggestion.fine, suggestion.kind))) {
      return say("There is no suggestion for this cell.");
    }
    act("/api/accept", { suggestions: { [suggestion.number]: cellOf(suggestion.fine, suggestion.kind).version } });
    this.focus(this.at + 1);
  }

  resolve() {
    const cell = this.row && cellOf(this.row.fine, this.kindName);
    if (!cell?.disagreement) return say("Nobody disagrees on this cell.");
    act("/api/resolve", { fine: cell.fine, kind: cell.kind, value: cell.value, seen: cell.version });
  }

  changed(what, detail) {
    if (what === "progress") return this.drawProgress();
    if (what === "names") return this.open(this.kindName);
    if (what === "saved" && detail.edit.path === "/api/undo") {
      say(detail.answer.text);
      this.revealUndone(detail.answer.cells ?? []);
    }
    if (["cells", "saved", "refused", "others"].includes(what)) this.redraw(detail?.places);
  }

  /** Draw the rows of cells anew; without cells, all that are in sight. */
  redraw(places) {
    const classes = places && new Set(places.map(({ fine }) => fine));
    this.list.mark((row) => !classes || classes.has(row?.fine));
  }

  /** After an undo, go back to the row whose cell it was. */
  revealUndone(cells) {
    const cell = cells.find((one) => one.kind === this.kindName);
    if (!cell) return;
    for (const [index, row] of this.list.loaded()) if (row.fine === cell.fine) return this.focus(index);
  }
}
