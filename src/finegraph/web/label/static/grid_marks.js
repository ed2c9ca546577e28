// What the graph check says of the rows of the grid that are in sight, and what their names suggest: asked for once the keys rest, never waited for.

import { get } from "./api.js";
import { afterTyping } from "./typing.js";

const REST = 400;
/** When to ask again where an older state was checked, as the check of very many classes takes seconds; twice as long
 * each time. */
const LATER = 2000;
const LATEST = 60000;
/** How many classes are asked for at once, at the most. */
const MAX_CLASSES = 200;

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
    return kind === this.kind ? (this.said.get(number)?.doubts ?? []) : [];
  }

  /** What the name of a class suggests for the kind in sight. */
  suggestionOf(number, kind) {
    return kind === this.kind ? this.said.get(number)?.suggestion : undefined;
  }

  /** Ask anew once the keys rest. */
  ask = afterTyping(() => this.load(LATER), REST);

  async load(pause) {
    clearTimeout(this.timer);
    const { kind, numbers: all } = this.inSight();
    const numbers = all.slice(0, MAX_CLASSES);
    if (!numbers.length) return;
    const answer = await get("/api/marks", { kind, number: numbers }).catch(() => null);
    if (!answer || this.inSight().kind !== kind) return;
    if (kind !== this.kind) this.said.clear();
    this.kind = kind;
    const others = numbers.filter((number) => this.put(number, { doubts: answer.marks[number] ?? [], suggestion: answer.suggestions[number] }));
    if (others.length) this.redraw(new Set(others));
    clearTimeout(this.timer); // another question may have come in between
    if (answer.version < answer.now) this.timer = setTimeout(() => this.load(Math.min(2 * pause, LATEST)), pause);
  }

  /** Take note of what is said of a class; whether that is something else than before. */
  put(number, now) {
    const before = this.said.get(number) ?? { doubts: [] };
    this.said.set(number, now);
    return JSON.stringify(before) !== JSON.stringify(now);
  }
}
