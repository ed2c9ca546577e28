// Unresolved conflicts and refused edits, which need the attention of the person.

import { button, el, fill } from "/shared/elements.js";
import { openConflicts } from "./conflict_dialog.js";
import { openDialog } from "./dialogs.js";
import { openConflictList, saver } from "./model.js";
import { inWords } from "./values.js";

/** The number of unresolved conflicts and refused edits. */
export const countUnresolved = () => openConflictList().length + saver.returned.length;

/** Show them in a dialog; `goTo` opens a class. */
export function openUnresolved(goTo) {
  const conflicts = openConflictList();
  if (conflicts.length) return openConflicts({ path: "/api/decide" }, conflicts, "somebody else has changed it since you looked");
  const { body, close } = openDialog("Not saved");
  const draw = () => {
    if (!saver.returned.length) return close();
    const lines = saver.returned.map((edit) => line(edit, { goTo, close, draw }));
    fill(body, el("p", {}, "This was refused. It is kept here until you choose again or discard it."), lines);
  };
  draw();
}

function line(edit, { goTo, close, draw }) {
  const { body, path, reason } = edit;
  const decided = body.cells ?? [body];
  const discard = () => {
    saver.discardRefused((other) => other === edit);
    draw();
  };
  const again = () => {
    close();
    const [{ fine, kind, numbers }] = decided;
    goTo(fine, { number: numbers?.fine, kind });
  };
  const words = ({ fine, photo, kind, value }) => el("p", {}, el("strong", {}, fine ?? `photo ${photo}`), ` ${kind}: ${inWords(value)}`);
  const text = () => [el("p", {}, el("strong", {}, body.fine), " note:"), el("textarea", { readonly: true, rows: "3", "aria-label": "Text that was not saved" }, body.text)];
  return el(
    "section",
    { class: "unresolved" },
    path === "/api/note" ? text() : decided.map(words),
    el("p", { class: "hint" }, reason),
    el("div", { class: "row" }, decided[0].fine && button("Choose again", again), button("Discard", discard, { class: "quiet" })),
  );
}
