// Autosave: edits are sent one after the other in the order in which they were made, each under its own number.
//
// An edit that could not be sent stays, is shown as "not saved" and is sent again under the same number, so that it
// happens once however often it is sent. What is waiting is kept in the browser and survives a reload. A refusal is
// final: a conflict goes to whoever made the edit, with both values.

import { newEditId, post } from "./api.js";

const STORE = "finegraph.waiting";
const LONGEST_PAUSE = 8000;

export class Saver {
  /**
   * @param {(state: {name: string, waiting: number, reason: string}) => void} show the visible state
   * @param {(edit: object, answer: object) => void} done
   * @param {(edit: object, problem: Error) => void} refused
   */
  constructor(show, done, refused) {
    Object.assign(this, { show, done, refused, waiting: this.kept(), busy: false, pause: 500, reason: "" });
    this.prepare = (edit) => edit;
    addEventListener("beforeunload", (event) => this.waiting.length && event.preventDefault());
    addEventListener("online", () => this.retry());
  }

  /** Queue an edit; `prepare` may complete its body when it is sent for the first time. Returns its number. */
  add(path, body) {
    const edit = { path, body: { ...body, edit: newEditId() }, sent: false };
    this.waiting.push(edit);
    this.keep();
    this.run();
    return edit.body.edit;
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
      if (!edit.sent) {
        edit.body = this.prepare(edit).body;
        edit.sent = true;
        this.keep();
      }
      const answer = await post(edit.path, edit.body).catch((problem) => problem);
      if (answer instanceof Error && passing(answer)) {
        this.wait(answer);
        break;
      }
      this.drop(edit);
      this.tell(); // before what it changes is drawn, which takes longer
      this.tellOutcome(edit, answer);
    }
    this.busy = false;
    this.tell();
    if (this.idle) this.idlers.splice(0).forEach((resolve) => resolve());
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
    this.timer = setTimeout(() => this.retry(), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE);
  }

  tell() {
    const name = this.idle ? "saved" : this.timer ? "not saved" : "saving";
    this.show({ name, waiting: this.waiting.length, reason: this.reason });
  }

  keep() {
    if (this.idle) return localStorage.removeItem(STORE);
    try {
      localStorage.setItem(STORE, JSON.stringify(this.waiting));
    } catch {
      // An import may be larger than what a browser keeps; it is sent all the same, but does not survive a reload.
    }
  }

  kept() {
    try {
      const found = JSON.parse(localStorage.getItem(STORE) ?? "[]");
      return Array.isArray(found) ? found.filter((edit) => edit?.path?.startsWith("/api/") && edit.body?.edit) : [];
    } catch {
      return [];
    }
  }
}

/** Whether a refusal may be gone the next time: the server is away, busy, or wants to know who asks. */
function passing({ status = 0 }) {
  return status === 0 || status === 401 || status === 408 || status === 429 || status >= 500;
}
