// The list of classes beside one class: search, filter, order; only the rows in sight exist.

import { get } from "./api.js";
import { count, el } from "./dom.js";
import { afterTyping } from "./typing.js";
import { UnlikeNames, wholeName } from "./unlike_names.js";
import { VirtualList } from "./virtual_list.js";

/** The filters, in the order in which the key goes through them. */
export const FILTERS = {
  all: "All classes",
  unknown: "With unknown labels",
  disagreement: "People disagree",
  low_confidence: "The model doubts",
  contradicted: "Photos contradict",
  suggested: "With suggestions",
  noted: "With notes",
};
export const ORDERS = { graph: "In file order", name: "By name", attention: "Doubtful first" };

/** The field that searches the classes of a view, which has `ask` and `searchKey`. */
export function searchField(view) {
  return el("input", {
    type: "search",
    placeholder: "Search classes  /",
    "aria-label": "Search classes",
    oninput: afterTyping((event) => view.ask({ search: event.target.value })),
    onkeydown: (event) => view.searchKey(event),
  });
}

/** A select of named choices. */
export function choices(label, entries, value, onchange) {
  const options = Object.entries(entries).map(([name, text]) => el("option", { value: name, selected: name === value }, text));
  const change = (event) => {
    event.target.blur(); // the keys are for the page again
    onchange(event.target.value);
  };
  return el("select", { "aria-label": label, onchange: change }, options);
}

/** The height of a row, and of one whose name takes two lines, as in class.css. */
const ROW = 34;
const TALL_ROW = 44;
/** What stands beside a name, in pixels. */
const BESIDE = 36;

/** How many classes after the one in focus are looked for where it is not in a list any more. */
const NEAR = 20;

/** The numbers of the classes at which to stay when a list is asked for anew: that at a place, else one of the next. */
export function near(list, index) {
  const rows = Array.from({ length: NEAR }, (_, step) => list.row(index + step));
  return rows.filter(Boolean).map((row) => row.number);
}

export class ClassList {
  /**
   * @param {HTMLElement} holder
   * @param {(row: {fine: string, number: number}) => Promise<void>} open
   */
  constructor(holder, open) {
    Object.assign(this, { open, query: { show: "all", order: "graph", search: "" }, index: 0, current: null, names: new UnlikeNames() });
    this.search = searchField(this);
    this.total = el("span", { class: "muted" });
    this.rows = el("div", { class: "list-rows", role: "listbox", "aria-label": "Classes" });
    holder.replaceChildren(el("div", { class: "list-tools" }, this.search, el("div", { class: "row" }, this.selects())), this.rows);
    this.list = new VirtualList(this.rows, ROW, (page) => this.load(page), (row, at) => this.draw(row, at), () => (this.renewed = this.again().catch(() => {})));
  }

  selects() {
    this.filter = choices("Filter", FILTERS, this.query.show, (show) => this.ask({ show }));
    this.order = choices("Order", ORDERS, this.query.order, (order) => this.ask({ order }));
    return [this.filter, this.order, this.total];
  }

  async load(asked) {
    const page = await get("/api/classes", { ...this.query, ...asked });
    this.total.textContent = count(page.total, "class", "classes");
    this.compare(page.rows.map((row) => row.fine), asked.list === undefined);
    return page;
  }

  /** Take note of the names of a page; a new list has rows of two lines if its names are too long for one. */
  compare(names, anew) {
    if (anew) {
      this.names.clear();
      const room = this.rows.clientWidth - BESIDE;
      const tall = names.some((name) => this.widthOf(name) > room);
      this.rows.classList.toggle("two-lines", tall);
      this.list.rowHeight = tall ? TALL_ROW : ROW;
    }
    if (this.names.add(names)) this.list.mark(() => true);
  }

  /** How wide a name is where it is widest, as that of the open class. */
  widthOf(name) {
    this.pen ??= el("canvas").getContext("2d");
    const { fontSize, fontFamily } = getComputedStyle(this.rows);
    this.pen.font = `600 ${fontSize} ${fontFamily}`;
    return this.pen.measureText(name).width;
  }

  /** Where photos contradict labels, those classes come first, until a person chooses another order. */
  begin(contradicted) {
    if (contradicted && !this.begun) this.query.order = this.order.value = "attention";
    this.begun = true;
  }

  /** Change what is listed and open the first class of it. */
  async ask(change) {
    Object.assign(this.query, change);
    this.filter.value = this.query.show;
    this.order.value = this.query.order;
    await this.list.reset();
    this.rows.scrollTop = 0;
    if (this.list.row(0)) this.go(0);
  }

  /** Ask for the list anew and stay at the open class, or before the one that came after it. */
  async again(open = this.list.row(this.index)?.number) {
    const wanted = [...new Set([open, ...near(this.list, this.index)])].filter((number) => number !== undefined);
    const place = await this.list.reset(wanted.slice(0, NEAR));
    if (place === undefined) return;
    if (place === null) this.index = Math.min(this.index, this.list.total);
    else this.index = (await this.list.rowAt(place))?.number === open ? place : place - 1;
    this.list.reveal(Math.max(0, this.index));
  }

  /** The next filter, by key. */
  nextFilter() {
    const names = Object.keys(FILTERS);
    const next = names[(names.indexOf(this.query.show) + 1) % names.length];
    this.ask({ show: next });
    return FILTERS[next];
  }

  searchKey(event) {
    if (event.key === "Enter" || event.key === "Escape" || event.key === "ArrowDown") {
      event.preventDefault();
      if (event.key === "Escape") {
        this.search.value = "";
        this.ask({ search: "" });
      }
      this.search.blur();
    }
    event.stopPropagation();
  }

  /** Open the class at a place of the list, or the next one in a direction that has not been removed meanwhile. */
  async go(index, step = 1) {
    let row;
    for (; index >= 0 && index < this.list.total; index += step) {
      row = await this.list.rowAt(index);
      if (!row?.removed) break;
    }
    if (!row && this.renewed) {
      await this.renewed; // the list is another one now, in which the open class has another place
      this.renewed = undefined;
      return this.go(this.index + step, step);
    }
    if (!row || row.removed) return false;
    this.index = index;
    this.choose(row.fine);
    this.list.reveal(index);
    this.open(row);
    return true;
  }

  /** Show which class is open where it was not chosen from the list. */
  place(row) {
    this.choose(row.fine);
    for (const [index, listed] of this.list.loaded()) if (listed.number === row.number) this.index = index;
    this.list.reveal(Math.max(0, this.index));
  }

  /** Mark the class that is open. */
  choose(fine) {
    const before = this.current;
    this.current = fine;
    this.list.mark((row) => row && (row.fine === before || row.fine === fine));
  }

  /** The class after the open one, if it is loaded. */
  get next() {
    const row = this.list.row(this.index + 1);
    return row?.removed ? undefined : row;
  }

  draw(row, index) {
    const chosen = row !== undefined && row.fine === this.current;
    return el(
      "button",
      {
        type: "button",
        class: row?.removed ? "list-row removed" : "list-row",
        role: "option",
        "aria-selected": String(chosen),
        tabindex: "-1",
        onclick: () => this.go(index),
      },
      row ? wholeName(row.fine, this.names, { class: "name" }) : el("span", { class: "muted" }, "…"),
      row?.note && el("span", { class: "muted", title: row.note }, "✎"),
    );
  }

  /** Start typing in the search. */
  focusSearch() {
    this.search.focus();
    this.search.select();
  }
}
