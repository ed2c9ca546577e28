// The kinds: what the model says of each, and what the person knows. Each label is a button; of a group of yes-or-no
// kinds, such as ingredients, each is a chip that goes from open to yes, to no, and back.

import { byId, el, percent } from "./dom.js";
import { makePicker } from "./picker.js";

const CHIPS = 14;
const LEAST = 0.1;
const SHOWN = 5;
let built = null;

/** Put up the kinds of a model, in the place of those of the model before; `showKinds` then fills them in. */
export function buildKinds(model, known) {
  const groups = new Map();
  for (const kind of model.kinds) {
    const name = kind.group ?? kind.name;
    if (!groups.has(name)) groups.set(name, { name, grouped: kind.group !== null, kinds: [] });
    groups.get(name).kinds.push(kind);
  }
  const views = [...groups.values()].map((group) => buildGroup(group, known));
  built = { known, groups: views, all: new Set(), plain: null, left: placeNow() };
  byId("kind-list").replaceChildren(...built.groups.map((group) => group.element));
  byId("kinds").hidden = model.kinds.length === 0;
}

function buildGroup(group, known) {
  const labels = el("div", { className: "labels", role: "group", "aria-label": group.name });
  const parts = [el("h3", { textContent: group.name }), labels];
  const view = { ...group, labels, answers: [] };
  const [first] = group.kinds;
  if (!group.grouped && !first.binary && first.labels > 4) {
    parts.push(
      makePicker(first.name, `Find a ${first.name}`, () => view.answers, (label) => {
        if (!known.has(first.name, label)) known.toggle(first.name, label);
      }),
    );
  }
  view.element = el("div", { className: "kind" }, ...parts);
  return view;
}

/** Fill in what is said of each kind; `plain` is the answer without anything known. */
export function showKinds(prediction, plain) {
  const left = placeNow() ?? built.left;
  built.plain = plain;
  built.left = null;
  showKnown();
  for (const group of built.groups) {
    const buttons = group.grouped || group.kinds[0].binary ? chips(group, prediction) : answers(group, prediction);
    group.labels.replaceChildren(...buttons);
  }
  if (left) returnTo(left);
}

/** Where among the kinds the keyboard is; null where it is elsewhere. */
function placeNow() {
  const button = document.activeElement;
  const row = button?.closest("#known, .labels, .picker");
  return row ? { row, key: button.dataset.key, number: [...row.children].indexOf(button) } : null;
}

/** The buttons are new: who moves by keyboard stays at the same one, or at what took its place. */
function returnTo({ row, key, number }) {
  if (document.activeElement !== document.body) return; // they went elsewhere
  const buttons = [...row.children];
  const same = row.isConnected && (buttons.find((button) => button.dataset.key === key) ?? buttons[number] ?? buttons.at(-1));
  (same || byId("kind-list").querySelector("button"))?.focus();
}

function answers(group, prediction) {
  const { name } = group.kinds[0];
  group.answers = prediction.kinds[name];
  const listed = group.answers.slice(0, SHOWN);
  if (built.known.labels(name).length) {
    // What is ruled out now stays in sight, so that one can change one's mind.
    for (const label of [...built.known.labels(name), ...built.plain.kinds[name].slice(0, SHOWN).map((answer) => answer.label)]) {
      if (!listed.some((answer) => answer.label === label)) listed.push({ label, probability: 0 });
    }
  }
  return listed.map(({ label, probability }) =>
    button(`${name}=${label}`, label, probability, {
      "aria-pressed": String(built.known.has(name, label)),
      onclick: () => built.known.toggle(name, label),
    }),
  );
}

function chips(group, prediction) {
  const parts = group.kinds.map((kind) => ({ kind, yes: probabilityOfYes(prediction.kinds[kind.name]) }));
  parts.sort((one, two) => two.yes - one.yes);
  const all = built.all.has(group.name);
  const shown = parts.filter(
    ({ kind, yes }, number) => all || built.known.labels(kind.name).length || (number < CHIPS && (yes >= LEAST || parts.length <= 6)),
  );
  const found = shown.map(({ kind, yes }) => {
    const [told] = built.known.labels(kind.name);
    const words = { yes: ", told: yes", no: ", told: no" }[told] ?? "";
    return button(`${kind.name}=yes`, kind.part, yes, {
      className: told === "no" ? "not" : "",
      "aria-pressed": told === "no" ? "mixed" : String(told === "yes"),
      "aria-label": `${kind.part}, ${percent(yes)}${words}`,
      onclick: () => built.known.cycle(kind.name),
    });
  });
  if (shown.length < parts.length) {
    const more = () => {
      built.all.add(group.name);
      showKinds(prediction, built.plain);
    };
    const words = `${parts.length - shown.length} more`;
    found.push(el("button", { type: "button", className: "quiet", "data-key": "more", onclick: more, textContent: words }));
  }
  return found;
}

function button(key, label, probability, properties) {
  return el(
    "button",
    { type: "button", share: probability, "data-key": key, ...properties },
    el("span", { textContent: label, title: label }),
    el("span", { className: "value", textContent: percent(probability) }),
  );
}

function probabilityOfYes(listed) {
  const found = new Map(listed.map(({ label, probability }) => [label, probability]));
  return found.get("yes") ?? 1 - (found.get("no") ?? 1);
}

/** What was told, each with a way to take it back. */
function showKnown() {
  const told = built.known.entries.map(([kind, labels]) => {
    const words = `${kind}: ${labels.join(" or ")}`;
    return el(
      "button",
      { type: "button", "data-key": `told: ${kind}`, "aria-label": `Take back ${words}`, onclick: () => built.known.forget(kind) },
      el("span", { textContent: words }),
      el("span", { "aria-hidden": "true", textContent: "×" }),
    );
  });
  const all = { type: "button", className: "clear", "data-key": "all", onclick: () => built.known.clear() };
  if (told.length > 1) told.push(el("button", { ...all, textContent: "Take all back" }));
  byId("known").replaceChildren(...told);
}
