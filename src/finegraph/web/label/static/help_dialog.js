// The dialog that shows and changes the keys.

import { button, el, fill } from "/shared/elements.js";
import { openDialog } from "./dialogs.js";
import { ACTIONS, bindings, choiceKeys, keyName, rebind, resetKeys } from "./keys.js";
import { changed } from "./model.js";

const FIXED = new Set(["Tab", "Shift", "Control", "Alt", "Meta"]);

/** Show all keys, with buttons to change them. */
export function openHelp() {
  const { body } = openDialog("Keys");
  const draw = () => {
    const keys = bindings();
    const rows = Object.entries(ACTIONS).map(([name, [text]]) =>
      el("tr", { data: { action: name } }, el("td", {}, change(name, keys[name], draw)), el("td", {}, text)),
    );
    const letters = choiceKeys();
    const labels = `${keyName(letters[0])} to ${keyName(letters.at(-1))}`;
    fill(
      body,
      el(
        "p",
        {},
        el("kbd", {}, labels),
        " choose labels: digits first, then the letters that have no other use. With Shift a digit adds a label (one of several).",
      ),
      el("table", { class: "keys" }, el("tbody", {}, rows)),
      el("p", { class: "hint" }, "To change a key, click it and press another. If the key is in use, the two actions swap keys."),
      el("footer", {}, button("Reset all keys", () => {
        resetKeys();
        changed("cells");
        draw();
      }, { class: "quiet" })),
    );
  };
  draw();
}

function change(name, key, draw) {
  const own = button(keyName(key), () => {
    own.textContent = "press a key";
    own.addEventListener("keydown", (event) => {
      event.preventDefault();
      event.stopPropagation();
      if (FIXED.has(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && name !== "back") return draw(); // cancel
      rebind(name, event.key);
      changed("cells");
      draw();
    });
  }, { class: "key" });
  return own;
}
