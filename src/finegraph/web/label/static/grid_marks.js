// Findings of the graph check and suggestions from names for the visible rows of the grid, loaded in the background after a pause.

import { debounce } from "./debounce.js";
import { get } from "./label_api.js";

const PAUSE = 400;
/** The pauses, in milliseconds, before asking again if the response is about an older state; with very many classes the check
 * takes seconds. The pause doubles each time. */
const FIRST_RETRY = 2000;
const MAX_RETRY = 60000;
/** The maximum number of classes in a request. */
const MAX_CLASSES = 200;

export class GridMarks {
  /**
   * @param {() => {kind: string, numbers: number[]}} visible the kind and the visible classes
   * @param {(numbers: Set<number>) => void} redraw redraws these classes
   */
  constructor(visible, redraw) {
    Object.assign(this, { visible, redraw, kind: null, byClass: new Map() });
  }

  /** The findings about a cell of the visible kind. */
  findingsOf(number, kind) {
    return kind === this.kind ? (this.byClass.get(number)?.findings ?? []) : [];
  }

  /** The suggestion from the name of a class for the visible kind. */
  suggestionOf(number, kind) {
    return kind === this.kind ? this.byClass.get(number)?.suggestion : undefined;
  }

  /** Load marks after a pause. */
  ask = debounce(() => this.load(FIRST_RETRY), PAUSE);

  async load(pause) {
    clearTimeout(this.timer);
    const { kind, numbers: all } = this.visible();
    const numbers = all.slice(0, MAX_CLASSES);
    if (!numbers.length) return;
    const answer = await get("/api/marks", { kind, number: numbers }).catch(() => null);
    if (!answer || this.visible().kind !== kind) return;
    if (kind !== this.kind) this.byClass.clear();
    this.kind = kind;
    const others = numbers.filter((number) => this.put(number, { findings: answer.marks[number] ?? [], suggestion: answer.suggestions[number] }));
    if (others.length) this.redraw(new Set(others));
    clearTimeout(this.timer); // another request may have set it meanwhile
    if (answer.version < answer.now) this.timer = setTimeout(() => this.load(Math.min(2 * pause, MAX_RETRY)), pause);
  }

  /** Store the marks of a class; returns whether they have changed. */
  put(number, now) {
    const before = this.byClass.get(number) ?? { findings: [] };
    this.byClass.set(number, now);
    return JSON.stringify(before) !== JSON.stringify(now);
  }
}
