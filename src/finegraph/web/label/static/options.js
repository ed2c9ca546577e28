// The labels of a kind as buttons, with the keys that choose them.

import { button, el } from "./dom.js";
import { bindings, choiceKeys, keyName, withKey } from "./keys.js";
import { inOrder, likeliestFirst } from "./likeliest.js";
import { model } from "./model.js";
import { unlikeNames, wholeName } from "./unlike_names.js";
import { labelsIn, weightOf } from "./values.js";

const FEW = 8;

/** Whether the page is as narrow as on a phone. */
export const narrow = matchMedia("(max-width: 720px)");

/** The labels that can be chosen by a key, in order. */
export const keyed = (kind, belief) => inOrder(kind, belief).slice(0, choiceKeys().length);

/** Below this probability none is shown. */
const LEAST = 0.01;

/**
 * Buttons for the labels of a kind.
 *
 * @param {object} kind
 * @param {*} value what the cell holds
 * @param {{open: boolean, suggested: string[], accept: () => void, belief?: Object<string, number>, pick: (label: string, more: boolean) => void, find: () => void, clear: () => void}} options
 *   `open` shows all labels with their keys; otherwise a kind with many labels shows only those that hold or are
 *   suggested; `accept` takes the suggestion, whose label may be new; `belief` has the probabilities of the model; `find` looks for those that are not shown, `clear` says that it is unknown
 */
export function optionButtons(kind, value, { open, suggested = [], accept, belief, pick, find, clear, few = FEW }) {
  const held = new Set(labelsIn(value));
  const strange = (label) => !kind.labels.includes(label);
  const keys = choiceKeys();
  const all = open || kind.labels.length <= few;
  const most = narrow.matches ? Math.max(few, FEW) : keys.length; // on a phone a long list would push all else away
  const ordered = inOrder(kind, belief);
  const shown = [...ordered, ...[...held].filter(strange)].filter(
    (label, index) => held.has(label) || suggested.includes(label) || (all && index < most),
  );
  const places = new Map(shown.map((label) => [label, ordered.indexOf(label)]));
  const buttons = shown.map((label) => {
    const weight = weightOf(value, label);
    return button(
      [
        open && places.get(label) >= 0 && places.get(label) < keys.length && el("kbd", {}, keyName(keys[places.get(label)])),
        wholeName(label, unlikeNames(kind.labels)),
        weight !== undefined && el("small", {}, `${Math.round(100 * weight)} %`),
        open && probability(belief?.[label]),
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
  // A label that does not exist yet stands after the others; accepting the suggestion adds it.
  const added = suggested.filter((label) => strange(label) && !held.has(label)).map((label) =>
    button([el("span", { class: "plus" }, "+"), wholeName(label, unlikeNames(kind.labels))], accept, { class: "option suggested", tabindex: open ? "0" : "-1", title: withKey(`add ${label} and choose it`, "accept") }),
  );
  const rest = kind.labels.length - shown.filter((label) => !strange(label)).length;
  const empty = held.size === 0 && value?.all_of && el("span", { class: "muted" }, "none of them");
  const unknown = held.size === 0 && !value && !all && el("span", { class: "muted" }, "unknown");
  const others = open ? button(`${rest} more: ${keyName(bindings().find)}`, find, { class: "quiet small more" }) : el("span", { class: "muted more" }, `of ${kind.labels.length}`);
  const another = open && rest === 0 && !kind.binary && button("another …", find, { class: "quiet small more", title: withKey("find a label by its name, or add one", "find") });
  const forget = open && value !== null && button("unknown", clear, { class: "quiet small clear", title: withKey("make it unknown", "clear") });
  return [unknown, empty, ...buttons, ...added, rest > 0 && others, another, forget];
}

/** What the model gives a label. */
function probability(value) {
  if (value === undefined || value < LEAST) return null;
  return el("small", { class: "probability", title: "probability by the model, over the photos of the class" }, `${Math.round(100 * value)} %`);
}

/** A button that puts the likeliest labels first; only where a model has said what it believes. */
export function orderButton(turn) {
  return model.beliefs && button("Likeliest first", turn, { class: "quiet small order", "aria-pressed": String(likeliestFirst()), title: withKey("order labels by probability", "order") });
}

/** The short name of a binary kind that belongs to a group ("ingredient: tofu" is tofu), and the group. */
export function groupOf(name) {
  const at = name.indexOf(": ");
  return at > 0 ? [name.slice(0, at), name.slice(at + 2)] : [null, name];
}
