// Finding a label by typing a part of its name; a name that is not there yet can be added, after a warning if there is one.

import { button, el, fill } from "./dom.js";
import { openDialog, say } from "./dialogs.js";
import { bindings, keyName } from "./keys.js";
import { askServer, model, renaming, saver } from "./model.js";
import { actInWindow, newPreview } from "./outcome.js";

const SHOWN = 50;
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Let a person find a label of a kind; `pick` gets it, and answers false where it came too late. */
export function findLabel(kind, pick) {
  if (!kind) return;
  const { body, close, dialog } = openDialog(`Find a label of ${kind.name}`);
  const input = el("input", { type: "text", "aria-label": "Name of the label", autocomplete: "off", maxlength: "200" });
  const found = el("div", { class: "found", role: "listbox" });
  let at = 0;
  let entries = [];
  let adding = false;
  const take = async (entry) => {
    if (adding) return; // a second Enter would add it twice, and a field that is disabled still gets keys for a moment
    if (!entry.added) {
      close();
      return pick(entry.label);
    }
    adding = input.disabled = true;
    found.replaceChildren();
    if (!(await addLabel(kind, entry.label, body, dialog))) return;
    await saver.settled();
    await renaming.done;
    close(); // not before: a key that is pressed meanwhile would be for the cell that gets the label
    const there = model.kinds.find((one) => one.number === kind.number)?.labels.includes(entry.label);
    if (!there || pick(entry.label) === false) say(`Press ${keyName(bindings().find)} again to choose ${entry.label}.`);
  };
  const draw = () => {
    const rows = entries.map((entry, index) =>
      el("button", { type: "button", role: "option", "aria-selected": String(index === at), onclick: () => take(entry) }, entry.added ? `Add “${entry.label}” to ${kind.name}` : entry.label),
    );
    found.replaceChildren(...rows);
    found.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  };
  const look = () => {
    const words = fold(input.value).split(/\s+/).filter(Boolean);
    const fits = kind.labels.filter((label) => words.every((word) => fold(label).includes(word))).slice(0, SHOWN);
    entries = fits.map((label) => ({ label }));
    const name = input.value.trim();
    if (name && !kind.binary && !kind.labels.includes(name)) entries.push({ label: name, added: true });
    at = 0;
    draw();
  };
  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) at = Math.max(0, Math.min(entries.length - 1, at + step));
    if (event.key === "Enter" && entries[at]) take(entries[at]);
    if (step || event.key === "Enter") {
      event.preventDefault();
      if (!adding) draw();
    }
  });
  body.append(input, found);
  look();
  input.focus();
}

/** Add a label to a kind; what follows from it is shown first. Resolves to whether it was added. */
async function addLabel(kind, name, body, dialog) {
  const change = { change: "add_label", kind: kind.name, name };
  const preview = await askServer("/api/preview", { change }).catch((problem) => problem);
  if (preview instanceof Error) {
    fill(body, el("p", { class: "fault", role: "alert" }, preview.message));
    return false;
  }
  if (preview.warnings.length && !(await agreed(kind, name, preview.warnings, body, dialog))) return false;
  const outcome = await actInWindow(dialog, "/api/apply", { change, digest: preview.digest });
  if (outcome && newPreview(outcome)) return addLabel(kind, name, body, dialog); // something was edited: look again
  if (outcome?.problem) fill(body, el("p", { class: "fault", role: "alert" }, outcome.problem.message));
  return Boolean(outcome?.answer);
}

/** Let a person read warnings; resolves to whether they go on. */
function agreed(kind, name, warnings, body, dialog) {
  return new Promise((resolve) => {
    const add = button(`Add “${name}” to ${kind.name}`, () => resolve(true), { class: "primary" });
    fill(body, warnings.map((text) => el("p", { class: "warn", role: "alert" }, text)), el("footer", {}, button("Cancel", () => dialog.close(), { class: "quiet" }), add));
    dialog.addEventListener("close", () => resolve(false));
    dialog.tabIndex = -1;
    dialog.focus(); // Enter has chosen the name; it must not agree as well
  });
}
