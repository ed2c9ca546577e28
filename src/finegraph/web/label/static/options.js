// The labels of a kind as buttons, with the keys that choose them.

import { button, el } from "/shared/elements.js";
import { bindings, choiceKeys, keyName, withKey } from "./keys.js";
import { inOrder, likeliestFirst } from "./likeliest.js";
import { model } from "./model.js";
import { nameDifferences, nameElement } from "./name_differences.js";
import { labelsIn, weightOf } from "./values.js";

const FEW = 8; // kinds with at most this many labels show all of them

/** Matches the width of a phone. */
export const narrow = matchMedia("(max-width: 720px)");

/** The labels with a key, in order. */
export const keyed = (kind, belief) => inOrder(kind, belief).slice(0, choiceKeys().length);

/** Smaller probabilities are not shown. */
const MIN_PROBABILITY = 0.01;

/**
 * Buttons for the labels of a kind.
 *
 * @param {object} kind
 * @param {*} value the value of the cell
 * @param {{open: boolean, suggested: string[], accept: () => void, belief?: Object<string, number>, pick: (label: string, more: boolean) => void, find: () => void, clear: () => void}} options
 *   `open` shows all labels with their keys; otherwise a kind with many labels shows only those that are chosen or
 *   suggested. `accept` accepts the suggestion, whose label may be new; `belief` has the probabilities of the model; `find`
 *   opens the search for labels that are not shown; `clear` sets the cell to unknown
 */
export function optionButtons(kind, value, { open, suggested = [], accept, belief, pick, find, clear, few = FEW }) {
  const held = new Set(labelsIn(value));
  const isNew = (label) => !kind.labels.includes(label);
  const keys = choiceKeys();
  const all = open || kind.labels.length <= few;
  const maxShown = narrow.matches ? Math.max(few, FEW) : keys.length; // on a phone a long list would displace everything else
  const ordered = inOrder(kind, belief);
  const shown = [...ordered, ...[...held].filter(isNew)].filter(
    (label, index) => held.has(label) || suggested.includes(label) || (all && index < maxShown),
  );
  const places = new Map(shown.map((label) => [label, ordered.indexOf(label)]));
  const buttons = shown.map((label) => {
    const weight = weightOf(value, label);
    return button(
      [
        open && places.get(label) >= 0 && places.get(label) < keys.length && el("kbd", {}, keyName(keys[places.get(label)])),
        nameElement(label, nameDifferences(kind.labels)),
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
  // A new label comes after the others; accepting the suggestion adds it.
  const added = suggested.filter((label) => isNew(label) && !held.has(label)).map((label) =>
    button([el("span", { class: "plus" }, "+"), nameElement(label, nameDifferences(kind.labels))], accept, { class: "option suggested", tabindex: open ? "0" : "-1", title: withKey(`add ${label} and choose it`, "accept") }),
  );
  const rest = kind.labels.length - shown.filter((label) => !isNew(label)).length;
  const empty = held.size === 0 && value?.all_of && el("span", { class: "muted" }, "none of them");
  const unknown = held.size === 0 && !value && !all && el("span", { class: "muted" }, "unknown");
  const others = open ? button(`${rest} more: ${keyName(bindings().find)}`, find, { class: "quiet small more" }) : el("span", { class: "muted more" }, `of ${kind.labels.length}`);
  const another = open && rest === 0 && !kind.binary && button("another …", find, { class: "quiet small more", title: withKey("find a label by its name, or add one", "find") });
  const clearButton = open && value !== null && button("unknown", clear, { class: "quiet small clear", title: withKey("make it unknown", "clear") });
  return [unknown, empty, ...buttons, ...added, rest > 0 && others, another, clearButton];
}

/** The probability of a label by the model. */
function probability(value) {
  if (value === undefined || value < MIN_PROBABILITY) return null;
  return el("small", { class: "probability", title: "probability by the model, over the photos of the class" }, `${Math.round(100 * value)} %`);
}

/** The button that toggles the order of labels, if there are probabilities of a model. */
export function orderButton(toggle) {
  return model.beliefs && button("Likeliest first", toggle, { class: "quiet small order", "aria-pressed": String(likeliestFirst()), title: withKey("order labels by probability", "order") });
}

/** The group of a binary kind and its short name: "ingredient: tofu" is tofu of ingredient. */
export function groupOf(name) {
  const at = name.indexOf(": ");
  return at > 0 ? [name.slice(0, at), name.slice(at + 2)] : [null, name];
}
