// The note of a class: saved when the person leaves it, the class or the page. `row.note` is the text that the server has;
// what is in the field stays there until the server has it, also if it was refused.

import { el } from "./dom.js";
import { say } from "./dialogs.js";
import { withKey } from "./keys.js";
import { act, changed, forgetConflict, numbersOf, onChange } from "./model.js";

export class NoteField {
  /** @param {{row: object|null}} view what shows the class */
  constructor(view) {
    this.view = view;
    this.root = el("textarea", {
      class: "note",
      rows: "2",
      "aria-label": "Note",
      maxlength: "10000",
      onkeydown: (event) => this.key(event),
      oninput: () => changed("writing"),
      onblur: () => this.save(),
    });
    // These come before what waits is put aside, so that a text that is being written waits too.
    for (const leaving of ["beforeunload", "pagehide"]) addEventListener(leaving, () => this.save());
    document.addEventListener("visibilitychange", () => document.hidden && this.save());
    onChange((what, detail) => ["saved", "refused"].includes(what) && this.told(what, detail));
  }

  /** Whether there is a text that has not been handed over to be saved. */
  get writing() {
    return Boolean(this.view.row) && this.root.value !== (this.sent ?? this.view.row.note);
  }

  /** Show the note of a class; `before` is what was shown. Of the same class, a text that is not saved yet stays. */
  show(row, before) {
    this.root.placeholder = withKey("A note on this class", "note");
    const same = before?.number === row.number;
    if (same && this.root.value !== before.note) return Object.assign(row, { note: before.note, note_version: before.note_version });
    this.sent = undefined;
    this.root.value = row.note;
  }

  save() {
    if (!this.writing) return;
    const { fine, note_version: seen } = this.view.row;
    this.sent = this.root.value;
    act("/api/note", { fine, text: this.sent, seen, numbers: { fine: numbersOf(fine).fine } });
  }

  key(event) {
    event.stopPropagation();
    if (event.key === "Escape" || (event.key === "Enter" && !event.shiftKey)) {
      event.preventDefault();
      this.root.blur();
    }
  }

  /** Whether an edit is of this note. */
  isOf({ path, body }) {
    const { row } = this.view;
    if (path !== "/api/note" || !row) return false;
    return body.numbers?.fine === undefined ? body.fine === row.fine : body.numbers.fine === row.number;
  }

  told(what, { edit, answer }) {
    if (!this.isOf(edit)) return;
    const { row } = this.view;
    const { text } = edit.body;
    if (what === "refused" || this.sent === text) this.sent = undefined;
    if (what === "refused") return;
    if (this.root.value === row.note) this.root.value = text; // chosen in a window
    Object.assign(row, { note: text, note_version: answer.note_version ?? row.note_version });
  }

  /** Somebody else has written meanwhile: both texts are put into the field. */
  join(conflict) {
    const { yours, theirs, by, version } = conflict;
    forgetConflict(conflict);
    Object.assign(this.view.row, { note: theirs ?? "", note_version: version });
    this.root.value = [theirs, yours].filter(Boolean).join("\n");
    say(`${by ?? "Somebody"} changed the note too: both texts are in it now, save it as it should be.`);
  }
}
