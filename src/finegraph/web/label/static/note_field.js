// The note of a class: saved when the person leaves the field, the class or the page. `row.note` is the saved text; an
// unsaved text stays in the field until it is saved, also if it was refused.

import { el } from "/shared/elements.js";
import { say } from "./dialogs.js";
import { withKey } from "./keys.js";
import { act, changed, forgetConflict, numbersOf, onChange } from "./model.js";

export class NoteField {
  /** @param {{row: object|null}} view the view of the class */
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
    // These listeners run before the waiting edits are persisted, so that an unsaved text is persisted too.
    for (const event of ["beforeunload", "pagehide"]) addEventListener(event, () => this.save());
    document.addEventListener("visibilitychange", () => document.hidden && this.save());
    onChange((what, detail) => ["saved", "refused"].includes(what) && this.onSaved(what, detail));
  }

  /** Whether there is a text that is not queued for saving. */
  get writing() {
    return Boolean(this.view.row) && this.root.value !== (this.sent ?? this.view.row.note);
  }

  /** Show the note of a class; `before` is the former class. If it is the same class, an unsaved text stays. */
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

  onSaved(what, { edit, answer }) {
    if (!this.isOf(edit)) return;
    const { row } = this.view;
    const { text } = edit.body;
    if (what === "refused" || this.sent === text) this.sent = undefined;
    if (what === "refused") return;
    if (this.root.value === row.note) this.root.value = text; // chosen in a dialog
    Object.assign(row, { note: text, note_version: answer.note_version ?? row.note_version });
  }

  /** After somebody else has changed the note: put both texts into the field. */
  merge(conflict) {
    const { yours, theirs, by, version } = conflict;
    forgetConflict(conflict);
    Object.assign(this.view.row, { note: theirs ?? "", note_version: version });
    this.root.value = [theirs, yours].filter(Boolean).join("\n");
    say(`${by ?? "Somebody"} changed the note too: both texts are in it now; edit and save.`);
  }
}
