// Autosave: edits are sent one after the other in the order in which they were made, each under its own number.
//
// An edit that could not be sent stays, is shown as "not saved" and is sent again under the same number, so that it
// happens once however often it is sent. A refusal is final: a conflict goes to whoever made the edit, with both values.
// What was refused for another reason, such as a label that somebody has removed, can be kept until the person has
// looked at it.
//
// What is waiting or was refused, and conflicts that nobody has chosen in, are kept in the browser and survive a reload:
// a list per store and page. A page marks its list as left when it goes, and says now and then that it is still there; the
// next page of the same store takes lists over that were left. Should two pages send the same list, every edit happens once
// all the same.

import { newEditId, post } from "./api.js";

const KEPT = "finegraph.waiting";
const LONGEST_PAUSE = 8000;
const SIGN_OF_LIFE = 5000;
/** After how many milliseconds without a sign of life a page is gone; timers of hidden pages run once a minute only. */
const GONE = 180000;

export class Saver {
  /**
   * @param {(state: {name: string, waiting: number, reason: string}) => void} show the visible state
   * @param {(edit: object, answer: object) => void} done
   * @param {(edit: object, problem: Error) => void} refused
   */
  constructor(show, done, refused) {
    Object.assign(this, { show, done, refused, waiting: [], returned: [], busy: false, pause: 500, reason: "" });
    this.prepare = async (edit) => edit;
    this.conflicts = () => [];
    this.takeConflicts = () => {};
    addEventListener("beforeunload", (event) => this.waiting.length && event.preventDefault());
    addEventListener("online", () => this.retry());
  }

  /** Keep what waits under a store from now on, and take over what pages of it have left; once. */
  open(store) {
    if (this.store) return;
    this.store = store;
    this.own = `${KEPT}.${store}.${newEditId()}`;
    addEventListener("pagehide", () => this.keep(true));
    addEventListener("pageshow", (event) => event.persisted && location.reload()); // its list is another page's by now
    setInterval(() => {
      this.keep();
      this.takeOver();
    }, SIGN_OF_LIFE);
    this.takeOver();
  }

  /** Take over the lists of pages of this store that are gone. */
  takeOver() {
    const lists = Object.keys(localStorage).filter((name) => name.startsWith(`${KEPT}.${this.store}.`) && name !== this.own);
    for (const name of lists) {
      const { left, at, edits, returned, conflicts } = read(name);
      if (!left && Date.now() - at < GONE) continue;
      this.returned.push(...returned);
      this.takeConflicts(conflicts);
      const have = new Set(this.waiting.map((edit) => edit.body.edit));
      this.waiting.push(...edits.filter((edit) => !have.has(edit.body.edit)));
      this.keep();
      localStorage.removeItem(name);
      this.run();
    }
  }

  /** Queue an edit; `prepare` completes its body when it is sent for the first time. Returns its number. What is in
   * `more` stays here and is not sent. */
  add(path, body, more = {}) {
    const edit = { ...more, path, body: { ...body, edit: newEditId() }, sent: false };
    this.waiting.push(edit);
    this.keep();
    this.run();
    return edit.body.edit;
  }

  /** Keep an edit that was refused, with the reason, until it is given up. */
  keepRefused(edit, reason) {
    this.returned.push({ path: edit.path, body: edit.body, places: edit.places, reason });
    this.keep();
    this.tell();
  }

  /** Forget edits that were refused. */
  giveUp(test) {
    if (!this.returned.some(test)) return;
    this.returned = this.returned.filter((edit) => !test(edit));
    this.keep();
    this.tell();
  }

  /** Whether anything waits to be saved. */
  get idle() {
    return this.waiting.length === 0;
  }

  /** Resolves when nothing waits any more. */
  settled() {
    return this.idle ? Promise.resolve() : new Promise((resolve) => this.idlers.push(resolve));
  }

  idlers = [];

  /** Send now what could not be sent. */
  retry() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.run();
  }

  async run() {
    if (this.busy || this.timer) return this.tell();
    this.busy = true;
    while (this.waiting.length) {
      this.tell();
      const edit = this.waiting[0];
      const answer = await this.send(edit).catch((problem) => problem);
      if (answer instanceof Error && passing(answer)) {
        this.wait(answer);
        break;
      }
      this.drop(edit);
      this.tell(); // before what it changes is drawn, which takes longer
      if (answer) this.tellOutcome(edit, answer);
    }
    this.busy = false;
    this.tell();
    if (this.idle) this.idlers.splice(0).forEach((resolve) => resolve());
  }

  /** Send an edit; answers nothing where `prepare` finds that there is nothing to do. */
  async send(edit) {
    if (!edit.sent) {
      if (!(await this.prepare(edit))) return undefined;
      edit.sent = true;
      this.keep();
    }
    return post(edit.path, edit.body);
  }

  tellOutcome(edit, answer) {
    try {
      if (answer instanceof Error) this.refused(edit, answer);
      else this.done(edit, answer);
    } catch (fault) {
      reportError(fault); // a fault in what shows the outcome must not stop the saving
    }
  }

  drop(edit) {
    this.waiting = this.waiting.filter((other) => other !== edit);
    this.pause = 500;
    this.reason = "";
    this.keep();
  }

  wait(problem) {
    this.reason = problem.message;
    // Not all pages at the same moment: a server that has just come back would be asked by everybody at once.
    this.timer = setTimeout(() => this.retry(), this.pause * (0.5 + Math.random()));
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE);
  }

  tell() {
    const name = this.idle ? "saved" : this.timer ? "not saved" : "saving";
    this.show({ name, waiting: this.waiting.length, reason: this.reason });
  }

  keep(left = false) {
    const conflicts = this.conflicts();
    if (this.idle && !this.returned.length && !conflicts.length) return localStorage.removeItem(this.own);
    try {
      localStorage.setItem(this.own, JSON.stringify({ left, at: Date.now(), edits: this.waiting, returned: this.returned, conflicts }));
    } catch {
      // An import may be larger than what a browser keeps; it is sent all the same, but does not survive a reload.
    }
  }
}

/** A list that a page has kept; one that cannot be read is empty. */
function read(name) {
  try {
    const { left, at, edits, returned = [], conflicts = [] } = JSON.parse(localStorage.getItem(name));
    const sound = (edit) => edit?.path?.startsWith("/api/") && edit.body?.edit;
    return { left, at, edits: edits.filter(sound), returned: returned.filter(sound), conflicts: conflicts.filter((one) => one?.what) };
  } catch {
    return { left: true, at: 0, edits: [], returned: [], conflicts: [] };
  }
}

/** Whether a refusal may be gone the next time: the server is away, busy, has another store, or asks who it is. */
function passing({ status = 0, body }) {
  return status === 0 || (status === 409 && body.store) || status === 401 || status === 408 || status === 429 || status >= 500;
}
