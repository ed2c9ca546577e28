// One class at a time: its name, photos and note, a row per kind, and beside it all that is known of the cell in focus.

import { setAddress } from "./address.js";
import { Ahead } from "./ahead.js";
import { get } from "./api.js";
import { CellPanel } from "./cell_panel.js";
import { ClassList } from "./class_list.js";
import { button, count, el, fill } from "./dom.js";
import { say } from "./dialogs.js";
import { findLabel } from "./find_label.js";
import { showHistory } from "./history.js";
import { withKey } from "./keys.js";
import { drawKindRow } from "./kind_row.js";
import { accept, beliefOf, cellOf, changed, confirm, conflictOf, decide, forgetConflict, model, putRows, renaming, resolve, shownValue } from "./model.js";
import { NoteField } from "./note_field.js";
import { groupOf, keyed } from "./options.js";
import { openNames } from "./names_dialog.js";
import { PhotoStrip } from "./photo_strip.js";
import { openSuggestions } from "./suggestions_dialog.js";
import { afterTyping } from "./typing.js";
import { choose } from "./values.js";

/** Suggestions for a class with what its name suggests by now; the best comes first in each kind. */
function withNamed(kept, named) {
  const others = kept.filter(({ number }) => number !== null);
  const told = (one) => JSON.stringify([one.kind, one.text]);
  const known = new Set(others.map(told));
  return [...others, ...named.filter((one) => !known.has(told(one)))].sort((one, other) => other.contradicts - one.contradicts || other.score - one.score);
}

export class ClassView {
  /** @param {{turnOrder: () => void}} go order labels */
  constructor(root, { turnOrder }) {
    this.turnOrder = turnOrder;
    this.row = null;
    this.kindAt = 0;
    this.kindRows = [];
    this.ahead = new Ahead();
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

  /** Show the view, at a class, a kind and a photo if they are named. */
  async open(fine, { number, kind, photo } = {}) {
    this.opening += 1;
    this.list.begin(model.contradicted);
    try {
      const there = fine ? await this.load(fine, { number, photo }) : false;
      if (there && kind) this.focusKind(Math.max(0, model.kinds.findIndex(({ name }) => name === kind)));
      if (there) await this.findInList();
      if (there === false) await this.openListed();
      if (there && photo) this.strip.enlargeNamed(photo);
    } catch (problem) {
      changed("lost");
      throw problem;
    } finally {
      this.opening -= 1;
    }
    changed("ready");
  }

  /** Open the class of the list at the place where the last one was. */
  async openListed() {
    await this.list.list.reset();
    await this.list.go(Math.max(0, Math.min(this.list.index, this.list.list.total - 1)));
  }

  /** Ask for the list anew and show where the open class is in it. */
  async findInList() {
    await this.list.again(this.row.number);
    this.list.place(this.row);
  }

  /** Show the same class and kind after names have changed, whatever they are called now. `place` is where the person was;
   * `classes` says that the list may have other classes now. */
  async reopen(place, classes) {
    const at = model.kinds.findIndex((kind) => kind.number === place.kind);
    this.kindAt = Math.max(0, at >= 0 ? at : Math.min(this.kindAt, model.kinds.length - 1));
    this.ahead.forget();
    const there = place.fine !== undefined && (await this.load(place.fine, { quietly: true, number: place.number }));
    if (there === false && this.problem?.status === 0) throw this.problem;
    if (there === false) await this.openListed();
    if (there && classes) await this.findInList();
  }

  /** Where the person is: what the next key is for. */
  place() {
    return { fine: this.wanted, number: this.wantedNumber, kind: this.kind?.number, labels: this.kind?.label_numbers ?? [] };
  }

  /** Whether another class is on its way. */
  coming = false;
  /** How often the view is being opened just now. */
  opening = 0;
  /** The number of the last question for a class: the answers to earlier ones are not shown any more. */
  turn = 0;

  /** Whether another class or its list is on its way; keys wait for it. */
  get loading() {
    return this.coming || this.opening > 0;
  }

  /** What was on its way is there, or is lost. */
  settle(what) {
    this.coming = false;
    changed(what);
  }

  /** Load a class and show it, by its number if that is known; `quietly` leaves a note that is being written alone. Whether
   * it is there; undefined where another was asked for meanwhile. */
  async load(fine, { quietly = false, number, photo } = {}) {
    if (!quietly) this.note.save();
    const turn = ++this.turn;
    Object.assign(this, { wanted: fine, wantedNumber: number, problem: undefined });
    this.coming ||= this.row?.fine !== fine;
    const row = await this.ahead.take(fine, number, photo).catch((problem) => {
      if (turn === this.turn) this.problem = problem;
      if (!quietly || problem.status !== 422) say(problem.message, { fault: true }); // else it went with an undo
    });
    if (turn !== this.turn) return undefined;
    if (!row) {
      if (this.row) this.list.place(this.row);
      Object.assign(this, { wanted: this.row?.fine, wantedNumber: this.row?.number });
      this.settle("lost");
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
    this.settle("ready");
    this.check();
    this.ahead.fetch(this.list.next);
    return true;
  }

  /** Load the open class again, unless another one is on its way. */
  refresh() {
    if (!this.loading && !renaming.held) this.load(this.row.fine, { quietly: true, number: this.row.number });
  }

  /** Ask what the graph check finds here, once the keys rest. */
  check = afterTyping(async () => {
    const fine = this.row.fine;
    const { row } = this;
    const answer = await get("/api/findings", { fine }).catch(() => null);
    if (!answer || this.row !== row) return;
    const suggestions = withNamed(row.suggestions, answer.suggestions);
    const told = ({ findings, suggestions }) => JSON.stringify([findings, suggestions]);
    if (told({ findings: answer.findings, suggestions }) === told(row)) return;
    Object.assign(row, { findings: answer.findings, suggestions });
    this.redrawPlaces();
  }, 400);

  /** Go on in the list; keys wait until the class is there. */
  async go(step) {
    this.coming = true;
    const went = await this.list.go(this.list.index + step, step).catch((problem) => {
      say(problem.message, { fault: true });
      changed("lost");
      return false;
    });
    if (!went) this.settle("ready");
    return went;
  }

  /** Whether a cell is in sight, and with it a conflict about it. */
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

  /** What to do first where there are no kinds. */
  begin() {
    return el(
      "div",
      { class: "begin" },
      el("h2", {}, "What do you want to say of each class?"),
      el("p", {}, "Add a kind, such as dish, restaurant or spicy, with its labels. Then you choose labels for the classes, one key each."),
      button(withKey("Add a kind", "names"), () => this.actions.names(), { class: "primary" }),
    );
  }

  /** Draw the rows of some kinds anew, and what is beside them; the rest stays, which a key must not wait for. */
  redraw(indices) {
    for (const index of indices) {
      const row = drawKindRow(this, model.kinds[index], index);
      this.kindRows[index].replaceWith(row);
      this.kindRows[index] = row;
    }
    this.strip.draw();
    this.panel.draw();
  }

  /** Draw what shows certain cells; without cells, everything. While names are being replaced nothing is drawn: the
   * class is about to be loaded with the new ones. */
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

  /** Scroll to the kind that keys are for. */
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
    save: () => this.saveAndGoOn(),
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

  /** Find a label by its name for the cell in focus, or for the photo; a new one is chosen only if that is still it. */
  find() {
    const place = () => JSON.stringify([this.row.number, this.kind?.number, this.strip.photo?.number]);
    const before = place();
    findLabel(this.kind, (label) => {
      if (place() !== before) return false;
      this.decideLabel(label, this.kind.mode === "all");
      return true;
    });
  }

  /** Enter: what is shown becomes the decision of this person, then the next kind, then the next class. */
  async saveAndGoOn() {
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

  // ---- what changed elsewhere ----------------------------------------------------------------------------------------

  changed(what, detail) {
    if (!this.row) return;
    const fine = this.row.fine;
    if (what === "cells") this.redrawPlaces(detail?.places);
    if (what === "progress") this.panel.draw();
    if (what !== "cells" && what !== "progress" && !detail?.places) this.ahead.forget();
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
    if (conflicts.length && this.note.isOf(edit)) this.note.join(conflicts[0]);
    else if (edit.path === "/api/photo") this.refresh();
    else this.redrawPlaces();
  }
}
