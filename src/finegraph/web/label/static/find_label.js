// Finding a label by a part of its name. A new name can be added; its warnings are shown first.

import { button, el, fill } from "/shared/elements.js";
import { openDialog, say } from "./dialogs.js";
import { bindings, keyName } from "./keys.js";
import { askServer, model, renaming, saver } from "./model.js";
import { actInDialog, newPreview } from "./outcome.js";

const MAX_SHOWN = 50;
const normalised = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Open a dialog to find a label of a kind; `pick` gets it, and returns false if it came too late. */
export function findLabel(kind, pick) {
  if (!kind) return;
  const { body, close, dialog } = openDialog(`Find a label of ${kind.name}`);
  const input = el("input", { type: "text", "aria-label": "Name of the label", autocomplete: "off", maxlength: "200" });
  const found = el("div", { class: "found", role: "listbox" });
  let at = 0;
  let entries = [];
  let adding = false;
  const take = async (entry) => {
    if (adding) return; // a second Enter would add it twice, as a disabled field still gets keys for a moment
    if (!entry.added) {
      close();
      return pick(entry.label);
    }
    adding = input.disabled = true;
    found.replaceChildren();
    if (!(await addLabel(kind, entry.label, body, dialog))) return;
    await saver.whenIdle();
    await renaming.done;
    close(); // not earlier, as keys that are pressed meanwhile would be for the cell
    const exists = model.kinds.find((one) => one.number === kind.number)?.labels.includes(entry.label);
    if (!exists || pick(entry.label) === false) say(`Press ${keyName(bindings().find)} again to choose ${entry.label}.`);
  };
  const draw = () => {
    const rows = entries.map((entry, index) =>
      el("button", { type: "button", role: "option", "aria-selected": String(index === at), onclick: () => take(entry) }, entry.added ? `Add “${entry.label}” to ${kind.name}` : entry.label),
    );
    found.replaceChildren(...rows);
    found.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  };
  const look = () => {
    const words = normalised(input.value).split(/\s+/).filter(Boolean);
    const fits = kind.labels.filter((label) => words.every((word) => normalised(label).includes(word))).slice(0, MAX_SHOWN);
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

/** Add a label to a kind after showing its warnings; resolves to whether it was added. */
async function addLabel(kind, name, body, dialog) {
  const change = { change: "add_label", kind: kind.name, name };
  const preview = await askServer("/api/preview", { change }).catch((problem) => problem);
  if (preview instanceof Error) {
    fill(body, el("p", { class: "fault", role: "alert" }, preview.message));
    return false;
  }
  if (preview.warnings.length && !(await confirmed(kind, name, preview.warnings, body, dialog))) return false;
  const outcome = await actInDialog(dialog, "/api/apply", { change, digest: preview.digest });
  if (outcome && newPreview(outcome)) return addLabel(kind, name, body, dialog); // something was edited meanwhile
  if (outcome?.problem) fill(body, el("p", { class: "fault", role: "alert" }, outcome.problem.message));
  return Boolean(outcome?.answer);
}

/** Show warnings; resolves to whether the person continues. */
function confirmed(kind, name, warnings, body, dialog) {
  return new Promise((resolve) => {
    const add = button(`Add “${name}” to ${kind.name}`, () => resolve(true), { class: "primary" });
    fill(body, warnings.map((text) => el("p", { class: "warn", role: "alert" }, text)), el("footer", {}, button("Cancel", () => dialog.close(), { class: "quiet" }), add));
    dialog.addEventListener("close", () => resolve(false));
    dialog.tabIndex = -1;
    dialog.focus(); // the Enter that chose the name must not press the button
  });
}
