// Autosave: edits are sent one after the other, in order, each with its own id.
//
// An edit that could not be sent is shown as "not saved" and sent again with the same id; the server applies it once. A
// refusal is final: a conflict is reported with both values. An edit that was refused for another reason, such as a label
// that somebody has removed, can be kept until the person has seen it.
//
// Waiting and refused edits and unresolved conflicts are persisted in the browser and survive a reload, in a list per store
// and page. A page marks its list as abandoned when it is closed, and refreshes its time stamp while it is open. The next
// page of the same store takes over abandoned lists. If two pages send the same list, the server still applies each edit
// once.

import { newEditId, post } from "./label_api.js";

const LIST_PREFIX = "finegraph.waiting";
// In milliseconds:
const FIRST_PAUSE = 500;
const MAX_PAUSE = 8000;
const HEARTBEAT = 5000;
const MAX_SILENCE = 180000; // a list without a heartbeat for longer is abandoned; timers of hidden pages run once a minute

export class Saver {
  /**
   * @param {(state: {name: string, waiting: number, reason: string}) => void} show shows the saving state
   * @param {(edit: object, answer: object) => void} done
   * @param {(edit: object, problem: Error) => void} refused
   */
  constructor(show, done, refused) {
    Object.assign(this, { show, done, refused, waiting: [], returned: [], busy: false, pause: FIRST_PAUSE, reason: "" });
    this.prepare = async (edit) => edit;
    this.conflicts = () => [];
    this.takeConflicts = () => {};
    addEventListener("beforeunload", (event) => this.waiting.length && event.preventDefault());
    addEventListener("online", () => this.retry());
  }

  /** Persist edits under a store from now on, and take over abandoned lists of the store. Later calls do nothing. */
  open(store) {
    if (this.store) return;
    this.store = store;
    this.own = `${LIST_PREFIX}.${store}.${newEditId()}`;
    addEventListener("pagehide", () => this.persist(true));
    addEventListener("pageshow", (event) => event.persisted && location.reload()); // another page may have taken over its list
    setInterval(() => {
      this.persist();
      this.takeOver();
    }, HEARTBEAT);
    this.takeOver();
  }

  /** Take over abandoned lists of this store. */
  takeOver() {
    const lists = Object.keys(localStorage).filter((name) => name.startsWith(`${LIST_PREFIX}.${this.store}.`) && name !== this.own);
    for (const name of lists) {
      const { left, at, edits, returned, conflicts } = read(name);
      if (!left && Date.now() - at < MAX_SILENCE) continue;
      this.returned.push(...returned);
      this.takeConflicts(conflicts);
      const ids = new Set(this.waiting.map((edit) => edit.body.edit));
      this.waiting.push(...edits.filter((edit) => !ids.has(edit.body.edit)));
      this.persist();
      localStorage.removeItem(name);
      this.run();
    }
  }

  /** Queue an edit and return its id. `prepare` completes its body before it is sent for the first time. The entries of
   * `more` are not sent. */
  add(path, body, more = {}) {
    const edit = { ...more, path, body: { ...body, edit: newEditId() }, sent: false };
    this.waiting.push(edit);
    this.persist();
    this.run();
    return edit.body.edit;
  }

  /** Keep a refused edit with the reason until it is discarded. */
  keepRefused(edit, reason) {
    this.returned.push({ path: edit.path, body: edit.body, places: edit.places, reason });
    this.persist();
    this.showState();
  }

  /** Discard refused edits for which `test` is true. */
  discardRefused(test) {
    if (!this.returned.some(test)) return;
    this.returned = this.returned.filter((edit) => !test(edit));
    this.persist();
    this.showState();
  }

  /** Whether no edit is waiting. */
  get idle() {
    return this.waiting.length === 0;
  }

  /** Resolves when no edit is waiting. */
  whenIdle() {
    return this.idle ? Promise.resolve() : new Promise((resolve) => this.idlers.push(resolve));
  }

  idlers = [];

  /** Send waiting edits now. */
  retry() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.run();
  }

  async run() {
    if (this.busy || this.timer) return this.showState();
    this.busy = true;
    while (this.waiting.length) {
      this.showState();
      const edit = this.waiting[0];
      const answer = await this.send(edit).catch((problem) => problem);
      if (answer instanceof Error && isTransient(answer)) {
        this.wait(answer);
        break;
      }
      this.drop(edit);
      this.showState(); // before the slower redraw of the view
      if (answer) this.report(edit, answer);
    }
    this.busy = false;
    this.showState();
    if (this.idle) this.idlers.splice(0).forEach((resolve) => resolve());
  }

  /** Send an edit; resolves to undefined if `prepare` finds that there is nothing to do. */
  async send(edit) {
    if (!edit.sent) {
      if (!(await this.prepare(edit))) return undefined;
      edit.sent = true;
      this.persist();
    }
    return post(edit.path, edit.body);
  }

  report(edit, answer) {
    try {
      if (answer instanceof Error) this.refused(edit, answer);
      else this.done(edit, answer);
    } catch (fault) {
      reportError(fault); // an error in a listener must not stop the saving
    }
  }

  drop(edit) {
    this.waiting = this.waiting.filter((other) => other !== edit);
    this.pause = FIRST_PAUSE;
    this.reason = "";
    this.persist();
  }

  wait(problem) {
    this.reason = problem.message;
    // The pause is random, so that not all pages ask a restarted server at the same time.
    this.timer = setTimeout(() => this.retry(), this.pause * (0.5 + Math.random()));
    this.pause = Math.min(2 * this.pause, MAX_PAUSE);
  }

  showState() {
    const name = this.idle ? "saved" : this.timer ? "not saved" : "saving";
    this.show({ name, waiting: this.waiting.length, reason: this.reason });
  }

  persist(isAbandoned = false) {
    const conflicts = this.conflicts();
    if (this.idle && !this.returned.length && !conflicts.length) return localStorage.removeItem(this.own);
    try {
      localStorage.setItem(this.own, JSON.stringify({ left: isAbandoned, at: Date.now(), edits: this.waiting, returned: this.returned, conflicts }));
    } catch {
      // An import may exceed the storage of the browser; it is sent anyway, but does not survive a reload.
    }
  }
}

/** Read a persisted list; an unreadable one is empty. */
function read(name) {
  try {
    const { left, at, edits, returned = [], conflicts = [] } = JSON.parse(localStorage.getItem(name));
    const isValid = (edit) => edit?.path?.startsWith("/api/") && edit.body?.edit;
    return { left, at, edits: edits.filter(isValid), returned: returned.filter(isValid), conflicts: conflicts.filter((one) => one?.what) };
  } catch {
    return { left: true, at: 0, edits: [], returned: [], conflicts: [] };
  }
}

/** Whether a retry may succeed: the server is unreachable, busy, has another store, or needs a sign-in. */
function isTransient({ status = 0, body }) {
  return status === 0 || (status === 409 && body.store) || status === 401 || status === 408 || status === 429 || status >= 500;
}
