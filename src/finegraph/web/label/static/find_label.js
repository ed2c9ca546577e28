// Finding a label by typing a part of its name; a name that is not there yet can be added.

import { el } from "./dom.js";
import { openDialog, say } from "./dialogs.js";
import { bindings, keyName } from "./keys.js";
import { act, kindNamed, saver } from "./model.js";

const SHOWN = 50;
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Let a person find a label of a kind; `pick` gets it. */
export function findLabel(kind, pick) {
  if (!kind) return;
  const { body, close } = openDialog(`Find a label of ${kind.name}`);
  const input = el("input", { type: "text", "aria-label": "Name of the label", autocomplete: "off", maxlength: "200" });
  const found = el("div", { class: "found", role: "listbox" });
  let at = 0;
  let entries = [];
  const take = async (entry) => {
    close();
    if (!entry.added) return pick(entry.label);
    act("/api/apply", { change: { change: "add_label", kind: kind.name, name: entry.label } });
    await saver.settled();
    if (kindNamed(kind.name)?.labels.includes(entry.label)) pick(entry.label);
    else say(`Press ${keyName(bindings().find)} again to choose ${entry.label}.`);
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
      draw();
    }
  });
  body.append(input, found);
  look();
  input.focus();
}
