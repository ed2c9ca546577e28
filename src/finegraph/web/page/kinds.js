// The kinds: what the model says of each, and what the person knows. A label is a button; a kind of yes and no, such as
// an ingredient, has three: yes, no, and unknown. What stands where is decided by the first answer to a photo and stays
// so until the next photo: an answer only fills in probabilities, so nothing moves under a finger.

import { brief, byId, el, probabilityOf } from "./dom.js";
import { numberGroup } from "./numbers.js";
import { makePicker } from "./picker.js";

const ROWS = 14; // so many of a group of yes and no are shown at first
const LEAST = 0.1; // of a larger group, those that are less probable are not
const SMALL_GROUP = 6;
const SHOWN = 5;
const MAX_ORDER = 12; // labels that have an order stand in it, if they are not too many
let built = null;

/** Put up the kinds of a model, in the place of those of the model before; `showKinds` then fills them in. */
export function buildKinds(model, known) {
  const groups = new Map();
  for (const kind of model.kinds) {
    const name = kind.group ?? kind.name;
    if (!groups.has(name)) groups.set(name, { name, grouped: kind.group !== null, kinds: [] });
    groups.get(name).kinds.push(kind);
  }
  const lost = byId("kind-list").contains(document.activeElement);
  const views = [...groups.values()].map((group) => (group.grouped || group.kinds[0].binary ? binaryGroup(group, known) : labelGroup(group, known)));
  views.push(...model.numbers.map((number) => numberGroup(number, known)));
  built = { groups: views, plain: null, lost };
  byId("kind-list").replaceChildren(...views.map((group) => group.element));
  byId("kinds").hidden = views.length === 0;
}

/** Fill in what is said of each kind; `plain` is the answer to the photo without anything known. */
export function showKinds(prediction, plain) {
  if (built.plain !== plain) {
    built.plain = plain;
    for (const group of built.groups) group.lay(plain);
  }
  for (const group of built.groups) group.fill(prediction);
  if (built.lost && document.activeElement === document.body) byId("kind-list").querySelector("button")?.focus();
  built.lost = false;
}

/** Focus the search field of a kind; false if it has none. */
export function findAnother(kind) {
  const field = built.groups.find((group) => group.name === kind)?.element.querySelector("input");
  field?.scrollIntoView({ block: "center" });
  field?.focus();
  return field !== undefined;
}

/** Whether a kind has such a field. */
export const hasField = (kind) => built.groups.some((group) => group.name === kind && group.element.querySelector("input"));

// ---- a kind with labels ---------------------------------------------------------------------------------------------

function labelGroup(group, known) {
  const [{ name, labels: count, order }] = group.kinds;
  const row = el("div", { className: "labels", role: "group", "aria-label": name });
  const buttons = new Map();
  let answers = [];

  function add(label) {
    if (buttons.has(label)) return;
    const value = el("span", { className: "value" });
    const words = el("span", { textContent: label, title: label });
    const button = el("button", { type: "button", "data-key": `${name}=${label}`, onclick: () => known.toggle(name, label) }, words, value);
    buttons.set(label, { button, value });
    row.append(button);
  }

  function lay(plain) {
    row.replaceChildren();
    buttons.clear();
    const first = plain.kinds[name].slice(0, SHOWN).map(({ label }) => label);
    for (const label of order?.length <= MAX_ORDER ? order : first) add(label);
  }

  function fill(prediction) {
    answers = prediction.kinds[name];
    for (const label of known.labels(name)) add(label);
    for (const [label, { button, value }] of buttons) {
      const probability = probabilityOf(answers, label);
      button.style.setProperty("--share", probability);
      button.setAttribute("aria-pressed", String(known.has(name, label)));
      value.textContent = brief(probability);
    }
  }

  const parts = [el("h3", { textContent: name }), row];
  if (count > SHOWN - 1) {
    const pick = (label) => known.has(name, label) || known.toggle(name, label);
    parts.push(makePicker(name, `Find a ${name}`, () => answers.slice(0, SHOWN + 1), pick));
  }
  return { name, element: el("div", { className: "kind" }, ...parts), lay, fill };
}

// ---- kinds of yes and no --------------------------------------------------------------------------------------------

const CHOICES = [["yes", "Yes"], ["no", "No"], ["unknown", "Unknown"]];

function binaryGroup(group, known) {
  const list = el("div", { className: "choices-of-yes", role: "group", "aria-label": group.name });
  const more = el("button", { type: "button", className: "quiet more", "data-key": "more", onclick: unfold });
  let rows = new Map();

  function lay(plain) {
    const parts = group.kinds.map((kind) => ({ kind, yes: probabilityOf(plain.kinds[kind.name], "yes") }));
    parts.sort((one, two) => two.yes - one.yes);
    rows = new Map(parts.map(({ kind }) => [kind.name, binaryRow(kind, known)]));
    let hidden = 0;
    parts.forEach(({ kind, yes }, number) => {
      const shown = number < ROWS && (yes >= LEAST || parts.length <= SMALL_GROUP);
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
  return { name: group.name, element, lay, fill };
}

function binaryRow(kind, known) {
  const value = el("span", { className: "value" });
  const bar = el("span", { className: "bar", "aria-hidden": "true" });
  const buttons = CHOICES.map(([choice, words]) =>
    el("button", {
      type: "button",
      textContent: words,
      "data-key": `${kind.name}=${choice}`,
      "aria-label": `${kind.part}: ${choice}`,
      onclick: () => known.tell(kind.name, choice === "unknown" ? null : choice),
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
    const [told] = known.labels(kind.name);
    value.textContent = brief(yes);
    bar.style.setProperty("--share", yes);
    element.hidden &&= told === undefined; // what was told is in sight
    CHOICES.forEach(([choice], number) => buttons[number].setAttribute("aria-pressed", String(choice === (told ?? "unknown"))));
  }
  return { element, fill };
}
