// Evidence: for each kind the labels that the person allows. A tap adds a label, a second tap removes it.

export class Known {
  #kinds = new Map();
  #changed;

  constructor(changed) {
    this.#changed = changed;
  }

  has(kind, label) {
    return this.#kinds.get(kind)?.includes(label) ?? false;
  }

  labels(kind) {
    return this.#kinds.get(kind) ?? [];
  }

  get entries() {
    return [...this.#kinds.entries()];
  }

  /** Add a label or take it back; a second label of a kind means one of the two. */
  toggle(kind, label) {
    const now = this.labels(kind);
    this.#put(kind, now.includes(label) ? now.filter((other) => other !== label) : [...now, label]);
  }

  /** Set the only label of a kind and replace earlier evidence on it; null removes it. */
  tell(kind, label) {
    this.#put(kind, label === null ? [] : [label]);
  }

  forget(kind) {
    this.#put(kind, []);
  }

  clear(quietly = false) {
    this.#kinds.clear();
    if (!quietly) this.#changed();
  }

  #put(kind, labels) {
    if (labels.length) this.#kinds.set(kind, labels);
    else this.#kinds.delete(kind);
    this.#changed();
  }

  /** The evidence as texts, `kind=label`, as requests send it. */
  get texts() {
    return this.entries.flatMap(([kind, labels]) => labels.map((label) => `${kind}=${label}`));
  }

  toJSON() {
    return Object.fromEntries(this.#kinds);
  }
}
