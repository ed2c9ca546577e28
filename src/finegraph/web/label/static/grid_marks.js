// What the graph check says of the rows of the grid that are in sight: asked for once the keys rest, never waited for.

import { get } from "./api.js";
import { afterTyping } from "./typing.js";

const REST = 400;
/** When to ask once more where an older state was checked: the check of very many classes takes seconds. */
const LATER = 4000;

export class GridMarks {
  /**
   * @param {() => {kind: string, numbers: number[]}} inSight the kind and the classes that a person sees
   * @param {(numbers: Set<number>) => void} redraw draw these classes anew
   */
  constructor(inSight, redraw) {
    Object.assign(this, { inSight, redraw, kind: null, said: new Map() });
  }

  /** What is said of a cell of the kind in sight. */
  of(number, kind) {
    return kind === this.kind ? (this.said.get(number) ?? []) : [];
  }

  /** Ask anew once the keys rest. */
  ask = afterTyping(() => this.load(true), REST);

  async load(again) {
    clearTimeout(this.timer);
    const { kind, numbers } = this.inSight();
    if (!numbers.length) return;
    const answer = await get("/api/marks", { kind, number: numbers }).catch(() => null);
    if (!answer || this.inSight().kind !== kind) return;
    if (kind !== this.kind) this.said.clear();
    this.kind = kind;
    const others = numbers.filter((number) => this.put(number, answer.marks[number] ?? []));
    if (others.length) this.redraw(new Set(others));
    if (again && answer.version < answer.now) this.timer = setTimeout(() => this.load(false), LATER);
  }

  /** Take note of what is said of a class; whether that is something else than before. */
  put(number, messages) {
    const before = this.said.get(number) ?? [];
    this.said.set(number, messages);
    return JSON.stringify(before) !== JSON.stringify(messages);
  }
}
