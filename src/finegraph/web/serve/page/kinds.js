// The kinds: the probabilities of their labels, and buttons to enter evidence. A label is a button; a binary kind, such as
// an ingredient, has three: yes, no, and unknown. The first answer to a photo decides the layout. Later answers only
// change probabilities, so that nothing moves under a finger.

import { byId, el } from "/shared/elements.js";
import { numberGroup } from "./numbers.js";
import { makePicker } from "./picker.js";
import { probabilityOf, shortPercent } from "./probabilities.js";

const MAX_ROWS = 14; // of a group of binary kinds; the others unfold
const MIN_PROBABILITY = 0.1; // less probable rows of larger groups are folded
const SMALL_GROUP = 6;
const SHOWN = 5;
const MAX_ORDER = 12; // ordered kinds with at most this many labels are shown in their order
let built = null;

/** Build the kinds of a model; `showKinds` then fills in the probabilities. */
export function buildKinds(model, evidence) {
  const groups = new Map();
  for (const kind of model.kinds) {
    const name = kind.group ?? kind.name;
    if (!groups.has(name)) groups.set(name, { name, grouped: kind.group !== null, kinds: [] });
    groups.get(name).kinds.push(kind);
  }
  const hadFocus = byId("kind-list").contains(document.activeElement);
  const views = [...groups.values()].map((group) => (group.grouped || group.kinds[0].binary ? binaryGroup(group, evidence) : labelGroup(group, evidence)));
  views.push(...model.numbers.map((number) => numberGroup(number, evidence)));
  built = { groups: views, plain: null, hadFocus };
  byId("kind-list").replaceChildren(...views.map((group) => group.element));
  byId("kinds").hidden = views.length === 0;
}

/** Show the probabilities of a prediction; `plain` is the prediction without evidence. */
export function showKinds(prediction, plain) {
  if (built.plain !== plain) {
    built.plain = plain;
    for (const group of built.groups) group.layOut(plain);
  }
  for (const group of built.groups) group.fill(prediction);
  if (built.hadFocus && document.activeElement === document.body) byId("kind-list").querySelector("button")?.focus();
  built.hadFocus = false;
}

/** Focus the search field of a kind; false if it has none. */
export function findAnother(kind) {
  const field = built.groups.find((group) => group.name === kind)?.element.querySelector("input");
  field?.scrollIntoView({ block: "center" });
  field?.focus();
  return field !== undefined;
}

/** Whether a kind has a search field. */
export const hasField = (kind) => built.groups.some((group) => group.name === kind && group.element.querySelector("input"));

// ---- a kind with labels ---------------------------------------------------------------------------------------------

function labelGroup(group, evidence) {
  const [{ name, labels: count, order }] = group.kinds;
  const row = el("div", { className: "labels", role: "group", "aria-label": name });
  const buttons = new Map();
  let answers = [];

  function add(label) {
    if (buttons.has(label)) return;
    const value = el("span", { className: "value" });
    const words = el("span", { textContent: label, title: label });
    const button = el("button", { type: "button", "data-key": `${name}=${label}`, onclick: () => evidence.toggle(name, label) }, words, value);
    buttons.set(label, { button, value });
    row.append(button);
  }

  function layOut(plain) {
    row.replaceChildren();
    buttons.clear();
    const first = plain.kinds[name].slice(0, SHOWN).map(({ label }) => label);
    for (const label of order?.length <= MAX_ORDER ? order : first) add(label);
  }

  function fill(prediction) {
    answers = prediction.kinds[name];
    for (const label of evidence.labels(name)) add(label);
    for (const [label, { button, value }] of buttons) {
      const probability = probabilityOf(answers, label);
      button.style.setProperty("--share", probability);
      button.setAttribute("aria-pressed", String(evidence.has(name, label)));
      value.textContent = shortPercent(probability);
    }
  }

  const parts = [el("h3", { textContent: name }), row];
  if (count > SHOWN - 1) {
    const pick = (label) => evidence.has(name, label) || evidence.toggle(name, label);
    parts.push(makePicker(name, `Find a ${name}`, () => answers.slice(0, SHOWN + 1), pick));
  }
  return { name, element: el("div", { className: "kind" }, ...parts), layOut, fill };
}

// ---- binary kinds ---------------------------------------------------------------------------------------------------

const CHOICES = [["yes", "Yes"], ["no", "No"], ["unknown", "Unknown"]];

function binaryGroup(group, evidence) {
  const list = el("div", { className: "choices-of-yes", role: "group", "aria-label": group.name });
  const more = el("button", { type: "button", className: "quiet more", "data-key": "more", onclick: unfold });
  let rows = new Map();

  function layOut(plain) {
    const parts = group.kinds.map((kind) => ({ kind, yes: probabilityOf(plain.kinds[kind.name], "yes") }));
    parts.sort((one, two) => two.yes - one.yes);
    rows = new Map(parts.map(({ kind }) => [kind.name, binaryRow(kind, evidence)]));
    let hidden = 0;
    parts.forEach(({ kind, yes }, number) => {
      const shown = number < MAX_ROWS && (yes >= MIN_PROBABILITY || parts.length <= SMALL_GROUP);
      rows.get(kind.name).element.hidden = !shown;
      hidden += shown ? 0 : 1;
    });
    more.textContent = `${hidden} more`;
    more.hidden = hidden === 0;
    list.replaceChildren(...[...rows.values()].map((row) => row.element), more);
  }

  function unfold() {
    const [first, ...others] = [...rows.values()].filter((row) => row.element.hidden);
    for (const row of [first, ...others]) row.element.hidden = false;
    more.hidden = true;
    first.element.querySelector("button").focus();
  }

  function fill(prediction) {
    for (const [name, row] of rows) row.fill(probabilityOf(prediction.kinds[name], "yes"));
  }

  const heading = group.grouped ? [el("h3", { textContent: group.name })] : [];
  const element = el("div", { className: group.grouped ? "kind" : "kind alone-of-its-kind" }, ...heading, list);
  return { name: group.name, element, layOut, fill };
}

function binaryRow(kind, evidence) {
  const value = el("span", { className: "value" });
  const bar = el("span", { className: "bar", "aria-hidden": "true" });
  const buttons = CHOICES.map(([choice, words]) =>
    el("button", {
      type: "button",
      textContent: words,
      "data-key": `${kind.name}=${choice}`,
      "aria-label": `${kind.part}: ${choice}`,
      onclick: () => evidence.setOnly(kind.name, choice === "unknown" ? null : choice),
    }),
  );
  const name = kind.group === null ? "h3" : "span";
  const element = el(
    "div",
    { className: "choice" },
    el("div", { className: "of" }, el(name, { className: "name", textContent: kind.part, title: kind.part }), value, bar),
    el("div", { className: "segments", role: "group", "aria-label": kind.part }, ...buttons),
  );
  function fill(yes) {
    const [answered] = evidence.labels(kind.name);
    value.textContent = shortPercent(yes);
    bar.style.setProperty("--share", yes);
    element.hidden &&= answered === undefined; // never hide evidence
    CHOICES.forEach(([choice], number) => buttons[number].setAttribute("aria-pressed", String(choice === (answered ?? "unknown"))));
  }
  return { element, fill };
}
