// The class that probably comes next, asked for while a person looks at the one before, so that going on waits for nothing.
//
// What was asked for is used for a few seconds only, and not after somebody else edited. It may still be old by as much as
// the page itself: a decision says which version of a cell was seen, so nothing is overwritten.

import { get } from "./api.js";

const KEPT = 15000;
const PHOTOS = 8;

export class Ahead {
  /** Ask for a class, if it is not being asked for already. */
  fetch({ fine, number } = {}) {
    if (!fine || this.fine === fine) return;
    Object.assign(this, { fine, since: performance.now(), answer: get("/api/class", { fine, number }) });
    this.answer.then(showSoon, () => this.forget());
  }

  /** A class: the one that was asked for ahead, or asked for now; by its number, if that is known. A photo that is named
   * comes with it. */
  take(fine, number, photo) {
    const ahead = this.fine === fine && photo === undefined && performance.now() - this.since < KEPT;
    const answer = ahead ? this.answer : get("/api/class", { fine, number, photo });
    this.forget();
    return answer;
  }

  /** What was asked for may be out of date. */
  forget() {
    this.fine = undefined;
  }
}

/** Load the first photos of a class into the cache of the browser. */
function showSoon({ photos }) {
  for (const { number } of photos.slice(0, PHOTOS)) new Image().src = `/photos/${number}/medium`;
}
