// Prefetching: the next class is loaded while the person looks at the current one, so that moving on is immediate.
//
// A prefetched class is used for a few seconds only, and not after somebody else has edited. It may be as outdated as the
// page itself: an edit has the version of the cell that the person saw, so nothing is overwritten.

import { get } from "./label_api.js";

const MAX_AGE = 15000; // milliseconds
const MAX_PHOTOS = 8;

export class Prefetch {
  /** Load a class, unless it is being loaded already. */
  fetch({ fine, number } = {}) {
    if (!fine || this.fine === fine) return;
    Object.assign(this, { fine, since: performance.now(), answer: get("/api/class", { fine, number }) });
    this.answer.then(preloadPhotos, () => this.clear());
  }

  /** A class: the prefetched one if it is recent, else loaded now, by its number if known. With `photo` the response
   * includes the photo of that name. */
  take(fine, number, photo) {
    const isPrefetched = this.fine === fine && photo === undefined && performance.now() - this.since < MAX_AGE;
    const answer = isPrefetched ? this.answer : get("/api/class", { fine, number, photo });
    this.clear();
    return answer;
  }

  /** Discard the prefetched class, which may be out of date. */
  clear() {
    this.fine = undefined;
  }
}

/** Load the first photos of a class into the cache of the browser. */
function preloadPhotos({ photos }) {
  for (const { number } of photos.slice(0, MAX_PHOTOS)) new Image().src = `/photos/${number}/medium`;
}
