// Names that are alike but for a part, shown so that the part is never cut off.
//
// A name is drawn in three pieces: what stands before the words in which it differs from its siblings, these words, and
// what stands after them. Where there is too little room, the outer pieces are shortened; see `.whole-name` in page.css.
// Siblings are compared word by word, and only those that begin or end with the same word. Cost per name: its siblings,
// at most MAX_NAMES of them.

import { el } from "./dom.js";

/** With how many siblings a name is compared. */
const MAX_NAMES = 400;
/** Of how large a share of its words a name has more in common with one that it could be taken for. */
const ALIKE = 0.5;

/** The words of a name with what follows each; together they are the name. Scripts without spaces go by character. */
const wordsOf = (name) => name.match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}][\s_/-]*|[^\s_/\-\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]+[\s_/-]*|[\s_/-]+/gu) ?? [];

export class UnlikeNames {
  /** @param {string[]} names those that are shown beside each other */
  constructor(names = []) {
    this.clear();
    this.add(names);
  }

  clear() {
    Object.assign(this, { known: new Map(), byEnd: new Map(), found: new Map() });
  }

  /** Take note of more names; whether there were any. */
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

  /** A name in three pieces: before, in and after the words in which it differs from names like it. */
  pieces(name) {
    if (!this.found.has(name)) this.found.set(name, this.split(name));
    return this.found.get(name);
  }

  split(name) {
    const spelt = wordsOf(name);
    const words = spelt.map((word) => word.trim());
    const siblings = [...(this.byEnd.get(`^${words[0]}`) ?? []), ...(this.byEnd.get(`${words.at(-1)}$`) ?? [])];
    let [first, last] = [spelt.length, 0];
    for (const other of siblings.slice(0, MAX_NAMES)) {
      const [start, end] = sharedEnds(words, other);
      if (start === words.length || start + end <= ALIKE * words.length) continue;
      first = Math.min(first, start);
      last = Math.max(last, words.length - end);
    }
    if (first >= last) return ["", name, ""];
    return [spelt.slice(0, first), spelt.slice(first, last), spelt.slice(last)].map((part) => part.join(""));
  }
}

/** How many words two names share at their start, and how many of the others at their end. */
function sharedEnds(one, other) {
  const shorter = Math.min(one.length, other.length);
  let start = 0;
  while (start < shorter && one[start] === other[start]) start++;
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [start, end];
}

const ofLists = new WeakMap();

/** What is known of a list of names, made once for the list. */
export function unlikeNames(names) {
  if (!ofLists.has(names)) ofLists.set(names, new UnlikeNames(names));
  return ofLists.get(names);
}

/** A name among those that stand beside it; the whole of it shows on hover. */
export function wholeName(name, siblings, attributes = {}) {
  const [before, differing, after] = siblings.pieces(name);
  const piece = (kind, text) => text && el("span", { class: kind }, text);
  return el(
    "span",
    { ...attributes, class: `whole-name ${attributes.class ?? ""}`, dir: "auto", title: name },
    piece("shared", before),
    piece("differing", differing),
    piece("shared", after),
  );
}
