// A list of very many rows of one height, of which only those in sight exist as elements.
//
// Rows are asked for in pages and kept; scrolling over rows that are not there yet shows empty ones. 100,000 rows cost as
// many elements as fit on the screen. A row is drawn once; after that only when it is marked, so that a key costs the
// rows that it changes and not the whole list. The server keeps the list as it was when it was asked for, under a name:
// what is decided meanwhile moves no row.

import { el } from "./dom.js";

const PAGE = 100;

export class VirtualList {
  /**
   * @param {HTMLElement} holder what scrolls
   * @param {number} rowHeight in pixels
   * @param {(page: {offset: number, limit: number, list?: string, near?: number[]}) =>
   *   Promise<{total: number, rows: object[], list: string, place: number|null}>} load
   * @param {(row: object|undefined, index: number) => HTMLElement} draw
   * @param {() => void} lost called where the server does not have the list any more
   */
  constructor(holder, rowHeight, load, draw, lost) {
    Object.assign(this, { holder, rowHeight, load, draw, lost, total: 0, pages: new Map(), asked: new Map(), age: 0 });
    this.drawn = new Map(); // place -> {element, row} of what is in sight
    this.marked = new Set();
    this.space = el("div", { class: "virtual-space" });
    this.window = el("div", { class: "virtual-window" });
    this.space.append(this.window);
    holder.replaceChildren(this.space);
    holder.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(holder);
  }

  /** Ask for a new list. Resolves when its first rows are there, to the place of the first of the `near` classes that
   * it has; to undefined where another was asked for meanwhile. */
  async reset(near = []) {
    return (await this.begin(0, { near }))?.place;
  }

  /** Load the rows of the same list anew, first those around a place. Whether the server still has it. */
  async reload(index) {
    const page = Math.floor(index / PAGE);
    const answer = await this.begin(page, { list: this.list }, (found) => found.list === this.list);
    return answer !== undefined && answer.list === this.list;
  }

  /** Put a page in the place of all rows that there were. */
  async begin(page, asked, wanted = () => true) {
    const age = ++this.age;
    this.asked.clear();
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

  /** The row at a place, if it has been loaded. */
  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** The rows that have been loaded, with their places. */
  *loaded() {
    for (const [page, rows] of this.pages) for (let i = 0; i < rows.length; i++) yield [page * PAGE + i, rows[i]];
  }

  /** The row at a place, loaded if need be. */
  async rowAt(index) {
    await this.need(Math.floor(index / PAGE));
    return this.row(index);
  }

  /** Scroll so that a row is in sight, with a neighbour on each side. */
  reveal(index) {
    const top = index * this.rowHeight;
    const { scrollTop, clientHeight } = this.holder;
    if (top - this.rowHeight < scrollTop) this.holder.scrollTop = top - this.rowHeight;
    else if (top + 2 * this.rowHeight > scrollTop + clientHeight) {
      this.holder.scrollTop = top + 2 * this.rowHeight - clientHeight;
    }
    this.show();
  }

  /** Draw rows anew at the next frame: those of which `test(row, index)` is true. */
  mark(test) {
    for (const [index, { row }] of this.drawn) if (test(row, index)) this.marked.add(index);
    this.later();
  }

  /** Whether a person sees the whole of a row of which `test(row)` is true. */
  inSight(test) {
    const { scrollTop, clientHeight } = this.holder;
    const seen = (index) => index * this.rowHeight >= scrollTop && (index + 1) * this.rowHeight <= scrollTop + clientHeight;
    return [...this.drawn].some(([index, { row }]) => test(row) && seen(index));
  }

  /** Draw at the next frame, once however often it is asked for. */
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.show();
    });
  }

  /** Draw the rows that are in sight and not drawn yet, or marked. */
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

  /** Called when other rows than before are in sight. */
  shown = () => {};

  /** The rows that are in sight and loaded. */
  drawnRows() {
    return [...this.drawn.values()].flatMap(({ row }) => row ?? []);
  }

  /** See to it that a row is drawn as it is now, at its place among the others. */
  put(index) {
    const page = Math.floor(index / PAGE);
    if (!this.pages.has(page)) this.need(page).then(() => this.later(), () => {}); // asked for again at the next scroll
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

  /** Called with the rows of each page that is taken over. */
  taken = () => {};

  need(page) {
    if (this.pages.has(page)) return Promise.resolve();
    if (!this.asked.has(page)) this.asked.set(page, this.fetch(page, this.age));
    return this.asked.get(page);
  }

  async fetch(page, age) {
    try {
      const answer = await this.load({ offset: page * PAGE, limit: PAGE, list: this.list });
      if (age !== this.age) return;
      if (answer.list !== this.list) return this.lost();
      this.take(page, answer);
    } finally {
      if (age === this.age) this.asked.delete(page);
    }
  }
}
