// Two classes, or two photos, side by side: which has more? Arrows, "=" or a touch answer, and the next pair is there at once.
//
// The server chooses the pair that tells most. The next one is asked for while a person looks at this one; an answer is saved
// like every decision, and undo brings the pair back. Beside it stands the order as it is by now.

import { setAddress } from "./address.js";
import { get, person } from "./api.js";
import { button, el, fill } from "./dom.js";
import { say } from "./dialogs.js";
import { bindings, keyName, withKey } from "./keys.js";
import { openPhotos } from "./lightbox.js";
import { act, changed, kindNamed, model } from "./model.js";
import { openNames } from "./names_dialog.js";
import { OrderList } from "./order_list.js";
import { afterTyping } from "./typing.js";

const keyOf = ({ pair }) => pair.map(({ number }) => number).join("-");
/** What holds of the left one, by the action of a key. */
const OUTCOMES = { left: "more", right: "less", find: "same", next: "skip" };

export class CompareView {
  constructor(root) {
    Object.assign(this, { kindName: undefined, of: "classes", shown: null, done: [], loading: false, unsaved: new Map(), turn: 0 });
    this.head = el("header", { class: "compare-head" });
    this.pair = el("div", { class: "pair", role: "group", "aria-label": "Two to compare" });
    this.between = el("div", { class: "between" });
    this.order = new OrderList();
    const main = el("section", { class: "compare-main" }, this.head, this.pair, this.between);
    this.root = el("div", { class: "compare-view", hidden: true }, main, this.order.root);
    root.append(this.root);
  }

  get kind() {
    return kindNamed(this.kindName);
  }

  get kinds() {
    return model.kinds.filter(({ comparable }) => comparable);
  }

  /** Show the view, at a kind if one is named. */
  async open(name) {
    const wanted = this.kinds.find((kind) => kind.name === (name ?? this.kindName)) ?? this.kinds[0];
    if (wanted?.name !== this.kindName) Object.assign(this, { shown: null, ahead: undefined, done: [] });
    this.kindName = wanted?.name;
    setAddress("compare", this.kindName);
    this.draw();
    if (!wanted) return this.order.clear();
    this.order.load(wanted.name, this.of);
    if (!this.shown) await this.show(this.ask());
  }

  /** Ask for a pair that is none of those that are before the person, or on their way to the store. */
  ask() {
    const before = [this.shown?.pair && keyOf(this.shown), ...this.unsaved.values()].filter(Boolean);
    const answer = get("/api/compare/pair", { kind: this.kindName, person: person(), of: this.of, shown: [...new Set(before)].slice(-20) });
    answer.then(({ pair }) => showSoon(pair ?? []), () => {});
    return answer;
  }

  /** Show a pair that was asked for, and ask for the next. */
  async show(asked) {
    const turn = ++this.turn;
    this.loading = true;
    const found = await asked.catch((problem) => problem);
    if (turn !== this.turn) return;
    this.loading = false;
    if (found instanceof Error) {
      this.problem = found.message;
      this.shown = null;
      changed("lost");
    } else {
      this.problem = undefined;
      this.shown = found;
      this.ahead = found.pair ? this.ask() : undefined;
    }
    this.draw();
    changed("ready");
  }

  /** Say what holds of the left one, and go on. */
  answer(outcome) {
    if (!this.shown?.pair) return say("There is nothing to compare here.");
    const { shown } = this;
    const [one, two] = shown.pair;
    const named = this.of === "photos" ? { one: one.photo, two: two.photo } : { one: one.fine, two: two.fine };
    const numbers = { kind: this.kind?.number, one: one.number, two: two.number };
    const edit = act("/api/compare", { kind: this.kindName, ...named, of: this.of, outcome, seen: shown.seen, numbers });
    this.unsaved.set(edit, keyOf(shown));
    this.done.push({ ...shown, edit });
    this.shown = null;
    return this.show(this.ahead ?? this.ask());
  }

  // ---- drawing -------------------------------------------------------------------------------------------------------

  draw() {
    this.drawHead();
    if (!this.kind) return this.begin();
    const { shown } = this;
    this.between.hidden = !shown?.pair;
    if (!shown) return this.problem && fill(this.pair, el("p", { class: "fault", role: "alert" }, this.problem), button("Try again", () => this.show(this.ask())));
    if (!shown.pair) {
      const none = this.of === "photos" ? "There are no two classes with photos to compare." : "You have compared every pair. Well done.";
      return fill(this.pair, el("p", { class: "pair-none" }, none));
    }
    fill(this.pair, shown.pair.map((side, index) => this.side(side, index)));
    const same = button([el("kbd", {}, keyName(bindings().find)), " Equal"], () => this.answer("same"), { class: "equal" });
    const skip = button([el("kbd", {}, keyName(bindings().next)), " Cannot tell"], () => this.answer("skip"), { class: "quiet" });
    fill(this.between, same, skip);
  }

  drawHead() {
    const kinds = this.kinds.map(({ name }) => el("option", { value: name, selected: name === this.kindName }, name));
    const choose = el("select", { "aria-label": "Kind", onchange: () => this.open(choose.value) }, kinds);
    const photos = model.photos && this.kind && button(withKey(this.of === "photos" ? "Compare classes" : "Compare photos", "photos"), () => this.turnPhotos(), { class: "quiet" });
    const undo = this.done.length > 0 && button(withKey("Undo", "undo"), () => act("/api/undo", {}), { class: "quiet" });
    const title = this.kind && el("h1", {}, "Which has more ", el("em", {}, this.kindName), "?");
    fill(this.head, title, el("div", { class: "row wrap" }, this.kinds.length > 1 && choose, photos, undo));
  }

  side(side, index) {
    const key = keyName(bindings()[index ? "right" : "left"]);
    const photos = this.of === "photos" ? [side.photo] : side.photos;
    const name = side.key ?? side.fine;
    const large = (event, at) => {
      event.stopPropagation();
      openPhotos(photos.map((number) => ({ number, key: name })), at, { title: side.fine });
    };
    const pictures = photos.map((number, at) =>
      el("img", { src: `/photos/${number}/${photos.length > 1 ? "medium" : "large"}`, alt: "", draggable: "false", oncontextmenu: (event) => event.preventDefault(), ondblclick: (event) => large(event, at) }),
    );
    return el(
      "button",
      { type: "button", class: "side", data: { fine: side.fine, side: index ? "right" : "left" }, onclick: () => this.answer(index ? "less" : "more") },
      pictures.length > 0 && el("span", { class: pictures.length > 1 ? "pictures several" : "pictures" }, pictures),
      el("span", { class: "side-name" }, el("strong", {}, side.fine), this.of === "photos" && el("small", {}, side.key.split("/").at(-1))),
      el("kbd", {}, key),
    );
  }

  /** What to do first where nothing can be compared. */
  begin() {
    this.between.hidden = true;
    fill(
      this.pair,
      el(
        "div",
        { class: "begin" },
        el("h2", {}, "What should people compare?"),
        el("p", {}, "Add a kind of numbers, such as heat or size, or one of labels in rising order. You need no values: from “this one has more” follow values with spreads."),
        button(withKey("Add a kind", "names"), () => openNames({}, "add_kind"), { class: "primary" }),
      ),
    );
  }

  turnPhotos() {
    if (!model.photos) return say("There are no photos: start with --data to compare photos.");
    Object.assign(this, { of: this.of === "photos" ? "classes" : "photos", shown: null, ahead: undefined, done: [] });
    this.draw();
    this.order.load(this.kindName, this.of);
    return this.show(this.ask());
  }

  // ---- keys ----------------------------------------------------------------------------------------------------------

  actions = {
    ...Object.fromEntries(Object.entries(OUTCOMES).map(([action, outcome]) => [action, () => this.answer(outcome)])),
    photos: () => this.turnPhotos(),
    enlarge: () => {
      const photos = (this.shown?.pair ?? []).flatMap((side) => (this.of === "photos" ? [side.photo] : side.photos).map((number) => ({ number, key: side.fine })));
      if (photos.length) openPhotos(photos, 0, { title: this.kindName });
    },
    names: () => openNames({ kind: this.kindName }),
  };

  choose() {}

  /** Whether a cell is in sight: none is here. */
  shows() {
    return false;
  }

  // ---- what changed --------------------------------------------------------------------------------------------------

  again = afterTyping(() => {
    if (!this.root.hidden && this.kindName) this.order.load(this.kindName, this.of);
  }, 150);

  changed(what, detail) {
    if (what === "saved") this.afterSave(detail);
    if (what === "refused" && detail.edit.path === "/api/compare") {
      this.unsaved.delete(detail.edit.body.edit);
      this.done = this.done.filter(({ edit }) => edit !== detail.edit.body.edit);
    }
    if (what === "names") return this.open();
    if (["saved", "refused", "others"].includes(what)) this.again();
    if (what === "cells") this.draw();
  }

  afterSave({ edit, answer }) {
    this.unsaved.delete(edit.body.edit);
    if (edit.path !== "/api/undo") return this.drawHead();
    say(answer.text);
    if (!answer.text.startsWith("undid: compared") || !this.done.length) return undefined;
    const back = this.done.pop(); // undo takes back the last action, and that was this one
    return this.show(Promise.resolve({ ...back, seen: answer.version }));
  }
}

/** Load the photos of a pair into the cache of the browser. */
function showSoon(pair) {
  for (const { photo, photos } of pair) {
    const numbers = photo ? [photo] : photos;
    for (const number of numbers) new Image().src = `/photos/${number}/${numbers.length > 1 ? "medium" : "large"}`;
  }
}
