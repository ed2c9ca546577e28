// The list of classes beside one class: search, filter, order; only the visible rows exist as elements.

import { el } from "/shared/elements.js";
import { debounce } from "./debounce.js";
import { get } from "./label_api.js";
import { NameDifferences, nameElement } from "./name_differences.js";
import { count } from "./texts.js";
import { VirtualList } from "./virtual_list.js";

/** The filters, in the order of the filter key. */
export const FILTERS = {
  all: "All classes",
  unknown: "With unknown labels",
  disagreement: "People disagree",
  low_confidence: "Model is unsure",
  contradicted: "Photos contradict",
  suggested: "With suggestions",
  noted: "With notes",
};
export const ORDERS = { graph: "In file order", name: "By name", attention: "Needs attention first" };

/** The search field of a view with the methods `ask` and `searchKey`. */
export function searchField(view) {
  return el("input", {
    type: "search",
    placeholder: "Search classes  /",
    "aria-label": "Search classes",
    oninput: debounce((event) => view.ask({ search: event.target.value })),
    onkeydown: (event) => view.searchKey(event),
  });
}

/** A select of named choices. */
export function choices(label, entries, value, onchange) {
  const options = Object.entries(entries).map(([name, text]) => el("option", { value: name, selected: name === value }, text));
  const change = (event) => {
    event.target.blur(); // return the keyboard to the page
    onchange(event.target.value);
  };
  return el("select", { "aria-label": label, onchange: change }, options);
}

/** The heights of rows with names of one and two lines, as in class.css. */
const ROW = 34;
const TALL_ROW = 44;
/** The width of a row without its name, in pixels. */
const ROW_PADDING = 36;

/** The number of following classes to look for if the focused one is no longer in the list. */
const MAX_NEAR = 20;

/** The numbers of the class at an index and of those after it; a reloaded list stays at the first that it still has. */
export function near(list, index) {
  const rows = Array.from({ length: MAX_NEAR }, (_, step) => list.row(index + step));
  return rows.filter(Boolean).map((row) => row.number);
}

export class ClassList {
  /**
   * @param {HTMLElement} holder
   * @param {(row: {fine: string, number: number}) => Promise<void>} open
   */
  constructor(holder, open) {
    Object.assign(this, { open, query: { show: "all", order: "graph", search: "" }, index: 0, current: null, names: new NameDifferences() });
    this.search = searchField(this);
    this.total = el("span", { class: "muted" });
    this.rows = el("div", { class: "list-rows", role: "listbox", "aria-label": "Classes" });
    holder.replaceChildren(el("div", { class: "list-tools" }, this.search, el("div", { class: "row" }, this.selects())), this.rows);
    this.list = new VirtualList(this.rows, ROW, (page) => this.load(page), (row, at) => this.draw(row, at), () => (this.renewed = this.reload().catch(() => {})));
  }

  selects() {
    this.filter = choices("Filter", FILTERS, this.query.show, (show) => this.ask({ show }));
    this.order = choices("Order", ORDERS, this.query.order, (order) => this.ask({ order }));
    return [this.filter, this.order, this.total];
  }

  async load(asked) {
    const page = await get("/api/classes", { ...this.query, ...asked });
    this.total.textContent = count(page.total, "class", "classes");
    this.addNames(page.rows.map((row) => row.fine), asked.list === undefined);
    return page;
  }

  /** Add the names of a page; a new list gets rows of two lines if a name is too long for one. */
  addNames(names, isNewList) {
    if (isNewList) {
      this.names.clear();
      const available = this.rows.clientWidth - ROW_PADDING;
      const tall = names.some((name) => this.widthOf(name) > available);
      this.rows.classList.toggle("two-lines", tall);
      this.list.rowHeight = tall ? TALL_ROW : ROW;
    }
    if (this.names.add(names)) this.list.mark(() => true);
  }

  /** The width of a name in its widest style, that of the open class. */
  widthOf(name) {
    this.canvasContext ??= el("canvas").getContext("2d");
    const { fontSize, fontFamily } = getComputedStyle(this.rows);
    this.canvasContext.font = `600 ${fontSize} ${fontFamily}`;
    return this.canvasContext.measureText(name).width;
  }

  /** If photos contradict labels, list those classes first until the person chooses another order. */
  begin(contradicted) {
    if (contradicted && !this.begun) this.query.order = this.order.value = "attention";
    this.begun = true;
  }

  /** Change the query and open the first class. */
  async ask(change) {
    Object.assign(this.query, change);
    this.filter.value = this.query.show;
    this.order.value = this.query.order;
    await this.list.reset();
    this.rows.scrollTop = 0;
    if (this.list.row(0)) this.go(0);
  }

  /** Reload the list and stay at the open class, or before the one that came after it. */
  async reload(open = this.list.row(this.index)?.number) {
    const wanted = [...new Set([open, ...near(this.list, this.index)])].filter((number) => number !== undefined);
    const place = await this.list.reset(wanted.slice(0, MAX_NEAR));
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

  /** Open the class at an index, or the next one in a direction that was not removed. */
  async go(index, step = 1) {
    let row;
    for (; index >= 0 && index < this.list.total; index += step) {
      row = await this.list.rowAt(index);
      if (!row?.removed) break;
    }
    if (!row && this.renewed) {
      await this.renewed; // in the new list the open class has another index
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

  /** Mark the open class if it was not opened from the list. */
  place(row) {
    this.choose(row.fine);
    for (const [index, listed] of this.list.loaded()) if (listed.number === row.number) this.index = index;
    this.list.reveal(Math.max(0, this.index));
  }

  /** Mark the open class. */
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
      row ? nameElement(row.fine, this.names, { class: "name" }) : el("span", { class: "muted" }, "…"),
      row?.note && el("span", { class: "muted", title: row.note }, "✎"),
    );
  }

  /** Focus the search field. */
  focusSearch() {
    this.search.focus();
    this.search.select();
  }
}
