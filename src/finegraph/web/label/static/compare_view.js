// Two classes, or two photos, side by side: which has more? Arrows, "=" or a tap answer, and the next pair appears at once.
//
// The server chooses the most informative pair. The next pair is prefetched while the person looks at the current one. An
// answer is saved like every decision, and undo brings the pair back. The current order is shown beside the pair.

import { button, el, fill } from "/shared/elements.js";
import { setAddress } from "./address.js";
import { debounce } from "./debounce.js";
import { say } from "./dialogs.js";
import { bindings, keyName, withKey } from "./keys.js";
import { get, person } from "./label_api.js";
import { openPhotos } from "./lightbox.js";
import { act, changed, kindNamed, model } from "./model.js";
import { openNames } from "./names_dialog.js";
import { OrderList } from "./order_list.js";

const keyOf = ({ pair }) => pair.map(({ number }) => number).join("-");
/** The outcome for the left one, by the action of a key. */
const OUTCOMES = { left: "more", right: "less", find: "same", next: "skip" };

export class CompareView {
  constructor(root) {
    Object.assign(this, { kindName: undefined, items: "classes", shown: null, done: [], loading: false, unsaved: new Map(), request: 0 });
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

  /** Show the view, at a kind if given. */
  async open(name) {
    const wanted = this.kinds.find((kind) => kind.name === (name ?? this.kindName)) ?? this.kinds[0];
    if (wanted?.name !== this.kindName) Object.assign(this, { shown: null, nextPair: undefined, done: [] });
    this.kindName = wanted?.name;
    setAddress("compare", this.kindName);
    this.draw();
    if (!wanted) return this.order.clear();
    this.order.load(wanted.name, this.items);
    if (!this.shown) await this.show(this.ask());
  }

  /** Request a pair that is neither shown nor being saved. */
  ask() {
    const excluded = [this.shown?.pair && keyOf(this.shown), ...this.unsaved.values()].filter(Boolean);
    const answer = get("/api/compare/pair", { kind: this.kindName, person: person(), of: this.items, shown: [...new Set(excluded)].slice(-20) });
    answer.then(({ pair }) => preloadPhotos(pair ?? []), () => {});
    return answer;
  }

  /** Show a requested pair, and request the next one. */
  async show(requested) {
    const request = ++this.request;
    this.loading = true;
    const found = await requested.catch((problem) => problem);
    if (request !== this.request) return;
    this.loading = false;
    if (found instanceof Error) {
      this.problem = found.message;
      this.shown = null;
      changed("lost");
    } else {
      this.problem = undefined;
      this.shown = found;
      this.nextPair = found.pair ? this.ask() : undefined;
    }
    this.draw();
    changed("ready");
  }

  /** Save the outcome for the left one, and show the next pair. */
  answer(outcome) {
    if (!this.shown?.pair) return say("There is nothing to compare here.");
    const { shown } = this;
    const [one, two] = shown.pair;
    const named = this.items === "photos" ? { one: one.photo, two: two.photo } : { one: one.fine, two: two.fine };
    const numbers = { kind: this.kind?.number, one: one.number, two: two.number };
    const edit = act("/api/compare", { kind: this.kindName, ...named, of: this.items, outcome, seen: shown.seen, numbers });
    this.unsaved.set(edit, keyOf(shown));
    this.done.push({ ...shown, edit });
    this.shown = null;
    return this.show(this.nextPair ?? this.ask());
  }

  // ---- drawing -------------------------------------------------------------------------------------------------------

  draw() {
    this.drawHead();
    if (!this.kind) return this.begin();
    const { shown } = this;
    this.between.hidden = !shown?.pair;
    if (!shown) return this.problem && fill(this.pair, el("p", { class: "fault", role: "alert" }, this.problem), button("Try again", () => this.show(this.ask())));
    if (!shown.pair) {
      const none = this.items === "photos" ? "There are no two classes with photos to compare." : "You have compared every pair. Well done.";
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
    const photos = model.photos && this.kind && button(withKey(this.items === "photos" ? "Compare classes" : "Compare photos", "photos"), () => this.togglePhotos(), { class: "quiet" });
    const undo = this.done.length > 0 && button(withKey("Undo", "undo"), () => act("/api/undo", {}), { class: "quiet" });
    const title = this.kind && el("h1", {}, "Which has more ", el("em", {}, this.kindName), "?");
    fill(this.head, title, el("div", { class: "row wrap" }, this.kinds.length > 1 && choose, photos, undo));
  }

  side(side, index) {
    const key = keyName(bindings()[index ? "right" : "left"]);
    const photos = this.items === "photos" ? [side.photo] : side.photos;
    const name = side.key ?? side.fine;
    const large = (event, at) => {
      event.stopPropagation();
      openPhotos(photos.map((number) => ({ number, key: name })), at, { title: side.fine });
    };
    const pictures = photos.map((number, at) =>
      el("img", { src: `/photos/${number}/${photos.length > 1 ? "medium" : "large"}`, alt: "", draggable: false, oncontextmenu: (event) => event.preventDefault(), ondblclick: (event) => large(event, at) }),
    );
    return el(
      "button",
      { type: "button", class: "side", data: { fine: side.fine, side: index ? "right" : "left" }, onclick: () => this.answer(index ? "less" : "more") },
      pictures.length > 0 && el("span", { class: pictures.length > 1 ? "pictures several" : "pictures" }, pictures),
      el("span", { class: "side-name" }, el("strong", {}, side.fine), this.items === "photos" && el("small", {}, side.key.split("/").at(-1))),
      el("kbd", {}, key),
    );
  }

  /** The hint that is shown while there is nothing to compare. */
  begin() {
    this.between.hidden = true;
    fill(
      this.pair,
      el(
        "div",
        { class: "begin" },
        el("h2", {}, "What should people compare?"),
        el("p", {}, "Add a kind of numbers, such as heat or size, or one of labels in ascending order. You need no values: values and their uncertainty are computed from your answers."),
        button(withKey("Add a kind", "names"), () => openNames({}, "add_kind"), { class: "primary" }),
      ),
    );
  }

  togglePhotos() {
    if (!model.photos) return say("There are no photos: start with --data to compare photos.");
    Object.assign(this, { items: this.items === "photos" ? "classes" : "photos", shown: null, nextPair: undefined, done: [] });
    this.draw();
    this.order.load(this.kindName, this.items);
    return this.show(this.ask());
  }

  // ---- keys ----------------------------------------------------------------------------------------------------------

  actions = {
    ...Object.fromEntries(Object.entries(OUTCOMES).map(([action, outcome]) => [action, () => this.answer(outcome)])),
    photos: () => this.togglePhotos(),
    enlarge: () => {
      const photos = (this.shown?.pair ?? []).flatMap((side) => (this.items === "photos" ? [side.photo] : side.photos).map((number) => ({ number, key: side.fine })));
      if (photos.length) openPhotos(photos, 0, { title: this.kindName });
    },
    names: () => openNames({ kind: this.kindName }),
  };

  choose() {}

  /** Whether the view shows a cell: it never does. */
  shows() {
    return false;
  }

  // ---- changes -------------------------------------------------------------------------------------------------------

  reloadOrder = debounce(() => {
    if (!this.root.hidden && this.kindName) this.order.load(this.kindName, this.items);
  }, 150);

  changed(what, detail) {
    if (what === "saved") this.afterSave(detail);
    if (what === "refused" && detail.edit.path === "/api/compare") {
      this.unsaved.delete(detail.edit.body.edit);
      this.done = this.done.filter(({ edit }) => edit !== detail.edit.body.edit);
    }
    if (what === "names") return this.open();
    if (["saved", "refused", "others"].includes(what)) this.reloadOrder();
    if (what === "cells") this.draw();
  }

  afterSave({ edit, answer }) {
    this.unsaved.delete(edit.body.edit);
    if (edit.path !== "/api/undo") return this.drawHead();
    say(answer.text);
    if (!answer.text.startsWith("undid: compared") || !this.done.length) return undefined;
    const undone = this.done.pop(); // undo reverts the last action, which was this answer
    return this.show(Promise.resolve({ ...undone, seen: answer.version }));
  }
}

/** Load the photos of a pair into the cache of the browser. */
function preloadPhotos(pair) {
  for (const { photo, photos } of pair) {
    const numbers = photo ? [photo] : photos;
    for (const number of numbers) new Image().src = `/photos/${number}/${numbers.length > 1 ? "medium" : "large"}`;
  }
}
