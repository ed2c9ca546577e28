// Names that differ from their siblings in a few words only, shown so that these words are never truncated.
//
// A name is drawn in three pieces: the words before those that differ from its siblings, the differing words, and the words
// after them. If there is too little space, the outer pieces are truncated; see `.name-pieces` in label.css. A name is
// compared, word by word, with siblings that begin or end with the same word. Cost per name: its siblings, at most
// MAX_SIBLINGS of them.

import { el } from "/shared/elements.js";

/** The number of siblings that a name is compared with. */
const MAX_SIBLINGS = 400;
/** Siblings that share at most this part of the words are too different to be confused, and are ignored. */
const MIN_SHARED = 0.5;

/** The words of a name with their separators; joined they are the name. In scripts without spaces each character is a word. */
const wordsOf = (name) => name.match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}][\s_/-]*|[^\s_/\-\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]+[\s_/-]*|[\s_/-]+/gu) ?? [];

export class NameDifferences {
  /** @param {string[]} names the names that are shown together */
  constructor(names = []) {
    this.clear();
    this.add(names);
  }

  clear() {
    Object.assign(this, { known: new Map(), byEnd: new Map(), found: new Map() });
  }

  /** Add names; returns whether any is new. */
  add(names) {
    const more = names.filter((name) => !this.known.has(name));
    for (const name of more) {
      const words = wordsOf(name).map((word) => word.trim());
      this.known.set(name, words);
      for (const end of new Set([`^${words[0]}`, `${words.at(-1)}$`])) {
        if (!this.byEnd.has(end)) this.byEnd.set(end, []);
        this.byEnd.get(end).push(words);
      }
    }
    if (more.length) this.found.clear();
    return more.length > 0;
  }

  /** A name in three pieces: before, in and after the differing words. */
  pieces(name) {
    if (!this.found.has(name)) this.found.set(name, this.split(name));
    return this.found.get(name);
  }

  split(name) {
    const separated = wordsOf(name);
    const words = separated.map((word) => word.trim());
    const siblings = [...(this.byEnd.get(`^${words[0]}`) ?? []), ...(this.byEnd.get(`${words.at(-1)}$`) ?? [])];
    let [first, last] = [separated.length, 0];
    for (const other of siblings.slice(0, MAX_SIBLINGS)) {
      const [start, end] = sharedEnds(words, other);
      if (start === words.length || start + end <= MIN_SHARED * words.length) continue;
      first = Math.min(first, start);
      last = Math.max(last, words.length - end);
    }
    if (first >= last) return ["", name, ""];
    return [separated.slice(0, first), separated.slice(first, last), separated.slice(last)].map((part) => part.join(""));
  }
}

/** The number of words that two names share at the start, and of the other words at the end. */
function sharedEnds(one, other) {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [start, end];
}

const ofLists = new WeakMap();

/** The differences of a list of names, computed once per list. */
export function nameDifferences(names) {
  if (!ofLists.has(names)) ofLists.set(names, new NameDifferences(names));
  return ofLists.get(names);
}

/** The element of a name among its siblings; hovering shows the full name. */
export function nameElement(name, siblings, attributes = {}) {
  const [before, differing, after] = siblings.pieces(name);
  const piece = (kind, text) => text && el("span", { class: kind }, text);
  return el(
    "span",
    { ...attributes, class: `name-pieces ${attributes.class ?? ""}`, dir: "auto", title: name },
    piece("shared", before),
    piece("differing", differing),
    piece("shared", after),
  );
}
