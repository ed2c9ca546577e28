// Evidence: the labels that the person allows, by kind. A tap adds a label, a second tap removes it.

export class Evidence {
  #kinds = new Map();
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
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

  /** Add a label, or remove it if it is there; several labels of a kind mean one of them. */
  toggle(kind, label) {
    const now = this.labels(kind);
    this.#set(kind, now.includes(label) ? now.filter((other) => other !== label) : [...now, label]);
  }

  /** Set the only label of a kind; null removes all evidence on the kind. */
  setOnly(kind, label) {
    this.#set(kind, label === null ? [] : [label]);
  }

  clearKind(kind) {
    this.#set(kind, []);
  }

  clear(quietly = false) {
    this.#kinds.clear();
    if (!quietly) this.#onChange();
  }

  #set(kind, labels) {
    if (labels.length) this.#kinds.set(kind, labels);
    else this.#kinds.delete(kind);
    this.#onChange();
  }

  /** The evidence as texts, `kind=label`, as requests send it. */
  get texts() {
    return this.entries.flatMap(([kind, labels]) => labels.map((label) => `${kind}=${label}`));
  }

  toJSON() {
    return Object.fromEntries(this.#kinds);
  }
}
