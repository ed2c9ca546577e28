// A list of very many rows of the same height; only visible rows exist as elements.
//
// Rows are loaded in pages and kept; rows that are not loaded yet are drawn empty. A list of 100,000 rows has as many elements
// as fit on the screen. A row is drawn once, and again only if it is marked, so that a key redraws only the rows that it
// changes. The server keeps a list under a name as it was when it was requested: later decisions move no row.

import { el } from "/shared/elements.js";

const PAGE = 100;

export class VirtualList {
  /**
   * @param {HTMLElement} holder the element that scrolls
   * @param {number} rowHeight in pixels
   * @param {(page: {offset: number, limit: number, list?: string, near?: number[]}) =>
   *   Promise<{total: number, rows: object[], list: string, place: number|null}>} load
   * @param {(row: object|undefined, index: number) => HTMLElement} draw
   * @param {() => void} lost called if the server has dropped the list
   */
  constructor(holder, rowHeight, load, draw, lost) {
    Object.assign(this, { holder, rowHeight, load, draw, lost, total: 0, pages: new Map(), requests: new Map(), age: 0 });
    this.drawn = new Map(); // index -> {element, row} of the visible rows
    this.marked = new Set();
    this.space = el("div", { class: "virtual-space" });
    this.window = el("div", { class: "virtual-window" });
    this.space.append(this.window);
    holder.replaceChildren(this.space);
    holder.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(holder);
  }

  /** Request a new list. Resolves when its first rows are loaded, to the index of the first of the `near` classes that
   * it contains; to undefined if another list was requested meanwhile. */
  async reset(near = []) {
    return (await this.begin(0, { near }))?.place;
  }

  /** Reload the rows of the same list around an index; resolves to whether the server still has the list. */
  async reload(index) {
    const page = Math.floor(index / PAGE);
    const answer = await this.begin(page, { list: this.list }, (found) => found.list === this.list);
    return answer !== undefined && answer.list === this.list;
  }

  /** Replace all rows by one page. */
  async begin(page, asked, wanted = () => true) {
    const age = ++this.age;
    this.requests.clear();
    const answer = await this.load({ offset: page * PAGE, limit: PAGE, ...asked });
    if (age !== this.age) return undefined;
    if (!wanted(answer)) return answer;
    this.list = answer.list;
    this.pages.clear();
    this.take(page, answer);
    this.mark(() => true);
    this.show();
    return answer;
  }

  /** The row at an index, if it is loaded. */
  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** The loaded rows with their indices. */
  *loaded() {
    for (const [page, rows] of this.pages) for (let i = 0; i < rows.length; i++) yield [page * PAGE + i, rows[i]];
  }

  /** The row at an index, loaded if necessary. */
  async rowAt(index) {
    await this.need(Math.floor(index / PAGE));
    return this.row(index);
  }

  /** Scroll so that a row is visible, with a neighbour on each side. */
  reveal(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.holder;
    if (top - this.rowHeight < scrollTop) this.holder.scrollTop = top - this.rowHeight;
    else if (top + 2 * this.rowHeight > scrollTop + clientHeight) {
      this.holder.scrollTop = top + 2 * this.rowHeight - clientHeight;
    }
    this.show();
  }

  /** Redraw the rows for which `test(row, index)` is true, at the next frame. */
  mark(test) {
    for (const [index, { row }] of this.drawn) if (test(row, index)) this.marked.add(index);
    this.later();
  }

  /** Whether a row for which `test(row)` is true is fully visible. */
  isVisible(test) {
    const { scrollTop, clientHeight } = this.holder;
    const seen = (index) => index * this.rowHeight >= scrollTop && (index + 1) * this.rowHeight <= scrollTop + clientHeight;
    return [...this.drawn].some(([index, { row }]) => test(row) && seen(index));
  }

  /** Draw at the next frame; further calls before it are ignored. */
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.show();
    });
  }

  /** Draw the visible rows that are not drawn yet, or marked. */
  show() {
    const { scrollTop, clientHeight } = this.holder;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - 4);
    const last = Math.min(this.total, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + 4);
    this.space.style.height = `${this.total * this.rowHeight}px`;
    this.window.style.transform = `translateY(${first * this.rowHeight}px)`;
    for (const [index, { element }] of this.drawn) {
      if (index >= first && index < last) continue;
      element.remove();
      this.drawn.delete(index);
    }
    for (let index = first; index < last; index++) this.put(index);
    this.marked.clear();
    if (this.fresh) this.shown();
    this.fresh = false;
  }

  /** Called after new rows have become visible. */
  shown = () => {};

  /** The visible rows that are loaded. */
  drawnRows() {
    return [...this.drawn.values()].flatMap(({ row }) => row ?? []);
  }

  /** Draw a row if necessary, in order among the others. */
  put(index) {
    const page = Math.floor(index / PAGE);
    if (!this.pages.has(page)) this.need(page).then(() => this.later(), () => {}); // requested again at the next scroll
    const row = this.row(index);
    const old = this.drawn.get(index);
    if (old && old.row === row && !this.marked.has(index)) return;
    this.fresh ||= row !== undefined && old?.row !== row;
    const element = this.draw(row, index);
    if (old) old.element.replaceWith(element);
    else this.drawn.has(index - 1) ? this.drawn.get(index - 1).element.after(element) : this.window.prepend(element);
    this.drawn.set(index, { element, row });
  }

  take(page, { total, rows }) {
    this.taken(rows);
    this.total = total;
    this.pages.set(page, rows);
  }

  /** Called with the rows of each loaded page. */
  taken = () => {};

  need(page) {
    if (this.pages.has(page)) return Promise.resolve();
    if (!this.requests.has(page)) this.requests.set(page, this.fetch(page, this.age));
    return this.requests.get(page);
  }

  async fetch(page, age) {
    try {
      const answer = await this.load({ offset: page * PAGE, limit: PAGE, list: this.list });
      if (age !== this.age) return;
      if (answer.list !== this.list) return this.lost();
      this.take(page, answer);
    } finally {
      if (age === this.age) this.requests.delete(page);
    }
  }
}
