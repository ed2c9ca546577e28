// The labels of a kind as buttons, with the keys that choose them.

import { button, el } from "./dom.js";
import { bindings, choiceKeys, keyName, withKey } from "./keys.js";
import { labelsIn, weightOf } from "./values.js";

const FEW = 8;

/** Whether the page is as narrow as on a phone. */
export const narrow = matchMedia("(max-width: 720px)");

/** The labels that can be chosen by a key, in order. */
export const keyed = (kind) => kind.labels.slice(0, choiceKeys().length);

/**
 * Buttons for the labels of a kind.
 *
 * @param {object} kind
 * @param {*} value what the cell holds
 * @param {{open: boolean, suggested: string[], pick: (label: string, more: boolean) => void, find: () => void, clear: () => void}} options
 *   `open` shows all labels with their keys; otherwise a kind with many labels shows only those that hold or are
 *   suggested; `find` looks for those that are not shown, `clear` says that it is unknown
 */
export function optionButtons(kind, value, { open, suggested = [], pick, find, clear, few = FEW }) {
  const held = new Set(labelsIn(value));
  const keys = choiceKeys();
  const all = open || kind.labels.length <= few;
  const most = narrow.matches ? Math.max(few, FEW) : keys.length; // on a phone a long list would push all else away
  const shown = kind.labels.filter(
    (label, index) => held.has(label) || suggested.includes(label) || (all && index < most),
  );
  const places = new Map(shown.map((label) => [label, kind.labels.indexOf(label)]));
  const buttons = shown.map((label) => {
    const weight = weightOf(value, label);
    return button(
      [
        open && places.get(label) < keys.length && el("kbd", {}, keyName(keys[places.get(label)])),
        el("span", {}, label),
        weight !== undefined && el("small", {}, `${Math.round(100 * weight)} %`),
      ],
      (event) => pick(label, event.shiftKey),
      {
        class: suggested.includes(label) && !held.has(label) ? "option suggested" : "option",
        "aria-pressed": String(held.has(label)),
        tabindex: open ? "0" : "-1",
        title: label,
      },
    );
  });
  const rest = kind.labels.length - shown.length;
  const empty = held.size === 0 && value?.all_of && el("span", { class: "muted" }, "none of them");
  const unknown = held.size === 0 && !value && !all && el("span", { class: "muted" }, "unknown");
  const others = open ? button(`${rest} more: ${keyName(bindings().find)}`, find, { class: "quiet small more" }) : el("span", { class: "muted more" }, `of ${kind.labels.length}`);
  const forget = open && value !== null && button("unknown", clear, { class: "quiet small clear", title: withKey("say that it is unknown", "clear") });
  return [unknown, empty, ...buttons, rest > 0 && others, forget];
}

/** The short name of a binary kind that belongs to a group ("ingredient: tofu" is tofu), and the group. */
export function groupOf(name) {
  const at = name.indexOf(": ");
  return at > 0 ? [name.slice(0, at), name.slice(at + 2)] : [null, name];
}
