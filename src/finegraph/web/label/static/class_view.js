// One class at a time: its name, photos and note, a row per kind, and a panel with the details of the focused cell.

import { button, el, fill } from "/shared/elements.js";
import { setAddress } from "./address.js";
import { CellPanel } from "./cell_panel.js";
import { ClassList } from "./class_list.js";
import { debounce } from "./debounce.js";
import { say } from "./dialogs.js";
import { findLabel } from "./find_label.js";
import { showHistory } from "./history.js";
import { withKey } from "./keys.js";
import { drawKindRow } from "./kind_row.js";
import { get } from "./label_api.js";
import { accept, beliefOf, cellOf, changed, confirm, conflictOf, decide, forgetConflict, model, putRows, renaming, resolve, shownValue } from "./model.js";
import { openNames } from "./names_dialog.js";
import { NoteField } from "./note_field.js";
import { groupOf, keyed } from "./options.js";
import { PhotoStrip } from "./photo_strip.js";
import { Prefetch } from "./prefetch.js";
import { openSuggestions } from "./suggestions_dialog.js";
import { count } from "./texts.js";
import { choose } from "./values.js";

/** Merge stored suggestions for a class with those derived from names; the best of each kind comes first. */
function withNamed(stored, named) {
  const others = stored.filter(({ number }) => number !== null);
  const identity = (one) => JSON.stringify([one.kind, one.text]);
  const known = new Set(others.map(identity));
  return [...others, ...named.filter((one) => !known.has(identity(one)))].sort((one, other) => other.contradicts - one.contradicts || other.score - one.score);
}

export class ClassView {
  /** @param {{toggleOrder: () => void}} actions toggles the order of labels */
  constructor(root, { toggleOrder }) {
    this.toggleOrder = toggleOrder;
    this.row = null;
    this.kindAt = 0;
    this.kindRows = [];
    this.prefetch = new Prefetch();
    this.head = el("header", { class: "class-head" });
    this.strip = new PhotoStrip(this);
    this.kinds = el("div", { class: "kinds", role: "group", "aria-label": "Kinds" });
    this.note = new NoteField(this);
    this.panel = new CellPanel(this);
    const list = el("nav", { class: "class-list", "aria-label": "Classes" });
    const main = el("section", { class: "class-main" }, this.head, this.strip.root, this.kinds, this.note.root);
    this.root = el("div", { class: "class-view" }, list, main, this.panel.root);
    root.append(this.root);
    this.list = new ClassList(list, ({ fine, number }) => this.load(fine, { number }));
  }

  /** Show the view, at a class, a kind and a photo if given. */
  async open(fine, { number, kind, photo } = {}) {
    this.opening += 1;
    this.list.begin(model.contradicted);
    try {
      const isLoaded = fine ? await this.load(fine, { number, photo }) : false;
      if (isLoaded && kind) this.focusKind(Math.max(0, model.kinds.findIndex(({ name }) => name === kind)));
      if (isLoaded) await this.findInList();
      if (isLoaded === false) await this.openListed();
      if (isLoaded && photo) this.strip.enlargeNamed(photo);
    } catch (problem) {
      changed("lost");
      throw problem;
    } finally {
      this.opening -= 1;
    }
    changed("ready");
  }

  /** Open the class at the former position of the list. */
  async openListed() {
    await this.list.list.reset();
    await this.list.go(Math.max(0, Math.min(this.list.index, this.list.list.total - 1)));
  }

  /** Reload the list and show the open class in it. */
  async findInList() {
    await this.list.reload(this.row.number);
    this.list.place(this.row);
  }

  /** Show the same class and kind after names have changed. `place` is the result of `place()` before; `classes`: the list
   * may have other classes now. */
  async reopen(place, classes) {
    const at = model.kinds.findIndex((kind) => kind.number === place.kind);
    this.kindAt = Math.max(0, at >= 0 ? at : Math.min(this.kindAt, model.kinds.length - 1));
    this.prefetch.clear();
    const isLoaded = place.fine !== undefined && (await this.load(place.fine, { quietly: true, number: place.number }));
    if (isLoaded === false && this.problem?.status === 0) throw this.problem;
    if (isLoaded === false) await this.openListed();
    if (isLoaded && classes) await this.findInList();
  }

  /** The class, kind and labels that the next key is for. */
  place() {
    return { fine: this.wanted, number: this.wantedNumber, kind: this.kind?.number, labels: this.kind?.label_numbers ?? [] };
  }

  /** Whether another class is being loaded. */
  coming = false;
  /** The number of calls of `open` in progress. */
  opening = 0;
  /** The number of the last request for a class; responses to earlier requests are ignored. */
  request = 0;

  /** Whether another class or the list is being loaded; keys wait for it. */
  get loading() {
    return this.coming || this.opening > 0;
  }

  /** End loading; `what` is "ready" or "lost". */
  finishLoading(what) {
    this.coming = false;
    changed(what);
  }

  /** Load a class and show it, by its number if known; `quietly` does not save a note that is being written. Resolves to
   * whether it was loaded; to undefined if another class was requested meanwhile. */
  async load(fine, { quietly = false, number, photo } = {}) {
    if (!quietly) this.note.save();
    const request = ++this.request;
    Object.assign(this, { wanted: fine, wantedNumber: number, problem: undefined });
    this.coming ||= this.row?.fine !== fine;
    const row = await this.prefetch.take(fine, number, photo).catch((problem) => {
      if (request === this.request) this.problem = problem;
      if (!quietly || problem.status !== 422) say(problem.message, { fault: true }); // 422: the class was removed by an undo
    });
    if (request !== this.request) return undefined;
    if (!row) {
      if (this.row) this.list.place(this.row);
      Object.assign(this, { wanted: this.row?.fine, wantedNumber: this.row?.number });
      this.finishLoading("lost");
      return false;
    }
    putRows([row]);
    const other = this.row?.number !== row.number;
    row.findings = other ? [] : this.row.findings;
    if (other) this.strip.leave();
    this.note.show(row, this.row);
    Object.assign(this, { row, wanted: row.fine, wantedNumber: row.number });
    setAddress("class", row.fine);
    this.draw();
    this.finishLoading("ready");
    this.check();
    this.prefetch.fetch(this.list.next);
    return true;
  }

  /** Reload the open class, unless another one is being loaded. */
  refresh() {
    if (!this.loading && !renaming.held) this.load(this.row.fine, { quietly: true, number: this.row.number });
  }

  /** Load the findings of the graph check after a pause. */
  check = debounce(async () => {
    const fine = this.row.fine;
    const { row } = this;
    const answer = await get("/api/findings", { fine }).catch(() => null);
    if (!answer || this.row !== row) return;
    const suggestions = withNamed(row.suggestions, answer.suggestions);
    const shown = ({ findings, suggestions }) => JSON.stringify([findings, suggestions]);
    if (shown({ findings: answer.findings, suggestions }) === shown(row)) return;
    Object.assign(row, { findings: answer.findings, suggestions });
    this.redrawPlaces();
  }, 400);

  /** Move in the list; keys wait until the class is loaded. */
  async go(step) {
    this.coming = true;
    const moved = await this.list.go(this.list.index + step, step).catch((problem) => {
      say(problem.message, { fault: true });
      changed("lost");
      return false;
    });
    if (!moved) this.finishLoading("ready");
    return moved;
  }

  /** Whether the view shows a cell, and with it a conflict about it. */
  shows(fine) {
    return this.row?.fine === fine && this.wanted === fine;
  }

  get kind() {
    return model.kinds[Math.min(this.kindAt, model.kinds.length - 1)];
  }

  /** The best suggestion for a kind of this class. */
  suggestion(kind) {
    return this.row.suggestions.find((one) => one.kind === kind);
  }

  draw() {
    if (!this.row) return;
    const { fine, position, photo_count: photos } = this.row;
    const place = `Class ${(position + 1).toLocaleString("en")} of ${model.progress.classes.toLocaleString("en")}`;
    fill(
      this.head,
      el("h1", {}, fine),
      el("p", { class: "muted" }, place, model.photos && ` · ${count(photos, "photo")}`),
    );
    this.strip.draw();
    this.kindRows = model.kinds.map((kind, index) => drawKindRow(this, kind, index));
    const rows = [];
    let group = null;
    model.kinds.forEach((kind, index) => {
      const [of] = groupOf(kind.name);
      if (of && of !== group) rows.push(el("h3", { class: "kind-group" }, of));
      group = of;
      rows.push(this.kindRows[index]);
    });
    fill(this.kinds, rows.length ? rows : this.begin());
    this.panel.draw();
  }

  /** The hint that is shown while there are no kinds. */
  begin() {
    return el(
      "div",
      { class: "begin" },
      el("h2", {}, "What do you want to record about each class?"),
      el("p", {}, "Add a kind, such as dish, restaurant or spicy, with its labels. Then you choose labels for the classes, one key each."),
      button(withKey("Add a kind", "names"), () => this.actions.names(), { class: "primary" }),
    );
  }

  /** Redraw the rows of some kinds, the photos and the panel only, so that keys stay fast. */
  redraw(indices) {
    for (const index of indices) {
      const row = drawKindRow(this, model.kinds[index], index);
      this.kindRows[index].replaceWith(row);
      this.kindRows[index] = row;
    }
    this.strip.draw();
    this.panel.draw();
  }

  /** Redraw certain cells; without cells, everything. Nothing is drawn while names are being replaced, as the class is
   * about to be reloaded. */
  redrawPlaces(places) {
    if (renaming.held) return;
    if (!places) return this.draw();
    const names = new Set(places.filter(({ fine }) => fine === this.row.fine).map(({ kind }) => kind));
    const indices = [...model.kinds.keys()].filter((index) => names.has(model.kinds[index].name));
    if (indices.length) this.redraw(indices);
  }

  takeTheirs(conflict) {
    forgetConflict(conflict);
    this.refresh();
  }

  focusKind(index) {
    if (this.kindAt === index) return;
    const before = this.kindAt;
    this.kindAt = index;
    this.redraw([before, index]);
    this.showFocus();
  }

  /** Scroll to the focused kind. */
  showFocus() {
    this.kinds.querySelector(".kind.focus")?.scrollIntoView({ block: "nearest" });
  }

  // ---- deciding ------------------------------------------------------------------------------------------------------

  decideLabel(label, more) {
    if (this.strip.active) return this.strip.decide(label, more);
    const { fine } = this.row;
    decide([[fine, this.kind.name, choose(this.kind, shownValue(fine, this.kind.name), label, more)]]);
  }

  /** A digit or a letter was pressed. */
  choose(index, more) {
    const label = keyed(this.kind, beliefOf(this.row.fine, this.kind.name))[index];
    if (label !== undefined) this.decideLabel(label, more);
  }

  actions = {
    next: () => this.focusKind(Math.min(this.kindAt + 1, model.kinds.length - 1)),
    previous: () => this.focusKind(Math.max(this.kindAt - 1, 0)),
    right: () => (this.strip.active ? this.strip.move(1) : this.go(1)),
    left: () => (this.strip.active ? this.strip.move(-1) : this.go(-1)),
    save: () => this.saveAndContinue(),
    clear: () => (this.strip.active ? this.strip.clear() : decide([[this.row.fine, this.kind.name, null]])),
    search: () => this.list.focusSearch(),
    filter: () => say(`Filter: ${this.list.nextFilter()}`),
    find: () => this.find(),
    accept: () => this.accept(),
    acceptAll: () => openSuggestions({ fine: this.row.fine }),
    resolve: () => this.resolve(shownValue(this.row.fine, this.kind.name)),
    photos: () => this.strip.toggle(),
    enlarge: () => this.strip.enlarge(),
    note: () => this.note.root.focus(),
    history: () => showHistory(this.row.fine, this.kind.name),
    names: () => openNames({ kind: this.kind?.name, fine: this.row.fine }),
    back: () => this.strip.active && this.strip.toggle(),
  };

  /** Find a label by name for the focused cell or photo; a new label is chosen only if the focus has not moved. */
  find() {
    const place = () => JSON.stringify([this.row.number, this.kind?.number, this.strip.photo?.number]);
    const before = place();
    findLabel(this.kind, (label) => {
      if (place() !== before) return false;
      this.decideLabel(label, this.kind.mode === "all");
      return true;
    });
  }

  /** Enter: confirm the shown value as a decision, then go to the next kind or class. */
  async saveAndContinue() {
    if (this.strip.active) return this.strip.move(1);
    if (this.kind) confirm(this.row.fine, this.kind.name);
    if (this.kindAt + 1 < model.kinds.length) return this.focusKind(this.kindAt + 1);
    const before = this.kindAt;
    this.kindAt = 0;
    if (!(await this.go(1))) {
      this.kindAt = before;
      say("That was the last class of this list.");
    }
  }

  accept(suggestion = this.suggestion(this.kind.name)) {
    if (!suggestion) return say("There is no suggestion here.");
    this.row.suggestions = this.row.suggestions.filter((one) => one !== suggestion);
    accept(suggestion);
  }

  resolve(value) {
    const { fine } = this.row;
    const conflict = conflictOf(fine, this.kind.name);
    if (conflict) return this.takeTheirs(conflict);
    if (!cellOf(fine, this.kind.name).disagreement) return say("Nobody disagrees here.");
    resolve(fine, this.kind.name, value);
  }

  // ---- changes -------------------------------------------------------------------------------------------------------

  changed(what, detail) {
    if (!this.row) return;
    const fine = this.row.fine;
    if (what === "cells") this.redrawPlaces(detail?.places);
    if (what === "progress") this.panel.draw();
    if (what !== "cells" && what !== "progress" && !detail?.places) this.prefetch.clear();
    if (what === "saved") this.afterSave(detail);
    if (what === "refused") this.afterRefusal(detail);
    if (what === "others" && detail.edits.some((edit) => edit.fine === fine || edit.photo)) this.refresh();
  }

  afterSave({ edit, answer, places }) {
    const fine = this.row.fine;
    const undone = edit.path === "/api/undo" ? (answer.cells ?? []) : [];
    if (undone.length && !undone.some((cell) => cell.fine === fine)) this.open(undone[0].fine);
    else if (places) {
      this.redrawPlaces(places);
      this.check();
    } else this.refresh();
    if (edit.path === "/api/undo") say(answer.text);
  }

  afterRefusal({ edit, conflicts }) {
    if (conflicts.length && this.note.isOf(edit)) this.note.merge(conflicts[0]);
    else if (edit.path === "/api/photo") this.refresh();
    else this.redrawPlaces();
  }
}
