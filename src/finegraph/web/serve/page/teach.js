// "Yes" and "No, this is …": teaching the model the label of the photo, if the server accepts lessons. A lesson has the
// predicted label, another known label, or a new one with its coarse labels. The page then shows how the answers changed,
// with a button to undo the lesson and, in a list of photos to label, one for the next photo.

import { byId, el } from "/shared/elements.js";
import { makePicker } from "./picker.js";
import { percent } from "./probabilities.js";
import { deleteLesson, explain, findLabels, getLessons, teach } from "./serve_api.js";

const MAX_LESSONS = 8; // in the list of lessons
const MAX_CHANGES = 4; // relatives in the table of changes
const PERSON = "finegraph person"; // a key of localStorage
let form = null; // the open form, {id, label, isNew, withPhoto, fields}, or null; the id stays until the lesson is stored
let lastLesson = null; // the response to the last lesson on this photo
let problem = "";
let count = 0;
let named = null; // the person's name, where the browser keeps nothing

/** Start over, for another photo. */
export function resetTeaching() {
  form = null;
  lastLesson = null;
  problem = "";
}

const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The name of the person, kept in the browser if it allows that. */
function person(name) {
  named = name ?? named;
  try {
    if (name !== undefined) localStorage.setItem(PERSON, name);
    return localStorage.getItem(PERSON) ?? named ?? "";
  } catch {
    return named ?? "";
  }
}

/** The field for the name, which every lesson is recorded with. */
function nameField() {
  const name = el("input", { type: "text", "data-key": "person", maxLength: 100, value: person(), autocomplete: "name", oninput: () => person(name.value.trim()) });
  return el("label", { className: "field" }, "Your name, if you like", name);
}

/**
 * Offer to correct the answer.
 * @param model the served model
 * @param entry the selected photo
 * @param prediction its prediction
 * @param onTaught (result) => void, called after a lesson on this photo was added or removed, and without a result after
 *   another lesson was removed
 * @param next {left, go} if there is another photo to label, else null
 */
export function showTeach(model, entry, prediction, onTaught, next) {
  const section = byId("teach");
  section.hidden = !model.teaching;
  if (section.hidden) return;
  const redraw = () => showTeach(model, entry, prediction, onTaught, next);
  const key = section.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const parts = lastLesson ? outcome(onTaught, redraw, next) : form ? opened(model, entry, prediction, onTaught, redraw) : closed(entry, prediction, onTaught, redraw, next);
  section.replaceChildren(...parts, el("p", { className: "note", role: "alert", hidden: !problem, textContent: problem }));
  if (key) section.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

function button(key, words, onclick, className = "") {
  return el("button", { type: "button", "data-key": key, className, textContent: words, onclick });
}

/** Send a lesson and show its outcome; after a problem the form stays open. */
async function send(entry, fields, onTaught, redraw) {
  problem = "";
  byId("teach").setAttribute("aria-busy", "true");
  try {
    lastLesson = await teach(form?.withPhoto === false ? null : entry.file, { ...fields, person: person() });
    form = null;
    onTaught(lastLesson);
  } catch (error) {
    problem = explain(error);
  }
  byId("teach").removeAttribute("aria-busy");
  redraw();
}

function closed(entry, prediction, onTaught, redraw, next) {
  const label = prediction.top[0]?.label;
  const open = () => {
    form = { id: newId(), label: "", isNew: false, withPhoto: true, fields: {} };
    redraw();
    byId("teach").querySelector("input")?.focus();
  };
  const id = newId();
  const yes = () => send(entry, { label, id }, onTaught, redraw);
  return [
    el("p", { className: "ask" }, "Is it ", el("b", { textContent: label }), "?"),
    el(
      "div",
      { className: "answers" },
      button("yes", "Yes", yes, next ? "primary" : ""),
      button("open", "No, this is …", open),
      ...(next ? [button("skip", "Skip", next.go, "quiet")] : []),
    ),
    nameField(),
    lessons(onTaught, redraw),
  ];
}

// ---- the form -------------------------------------------------------------------------------------------------------

function opened(model, entry, prediction, onTaught, redraw) {
  const close = () => {
    resetTeaching();
    redraw();
  };
  const submit = (event) => {
    event.preventDefault();
    if (!form.label.trim()) return;
    const fields = { label: form.label.trim(), id: form.id, ...(form.isNew ? { new: "true", parent: parents() } : {}) };
    send(entry, fields, onTaught, redraw);
  };
  const parts = form.isNew ? newLabel(model, redraw) : knownLabel(prediction, redraw);
  return [
    el("h2", { textContent: form.isNew ? "A new label" : "What is it?" }),
    el(
      "form",
      { onsubmit: submit },
      ...parts,
      nameField(),
      el("div", { className: "answers" }, el("button", { type: "submit", "data-key": "send", className: "primary", textContent: "Teach it" }), button("cancel", "Cancel", close)),
    ),
    el("p", { className: "small", textContent: "The photo itself is not stored; only its features, file name and your name are stored with the model." }),
  ];
}

function knownLabel(prediction, redraw) {
  const pick = (label) => {
    form.label = label;
    redraw();
    byId("teach").querySelector("[data-key=send]").focus();
  };
  const openNew = () => {
    form.isNew = true;
    form.label = "";
    redraw();
    byId("teach").querySelector("input").focus();
  };
  const picker = makePicker("fine", "Find the right label", () => prediction.top.slice(1, 7), pick);
  picker.querySelector("input").placeholder = form.label ? "Another one…" : "Find the right label…";
  return [
    form.label ? el("p", { className: "chosen" }, "This is ", el("b", { textContent: form.label }), ".") : null,
    button("new", "It is not in the list: a new label", openNew, "quiet"), // above the list, which covers what is below
    picker,
  ].filter(Boolean);
}

function newLabel(model, redraw) {
  const known = () => {
    Object.assign(form, { isNew: false, label: "", withPhoto: true });
    redraw();
  };
  const shows = el("input", { type: "checkbox", "data-key": "with photo", checked: form.withPhoto, onchange: () => { form.withPhoto = shows.checked; } });
  const name = el("input", { type: "text", "data-key": "label", required: true, maxLength: 200, value: form.label, oninput: () => { form.label = name.value; } });
  const groups = new Map();
  for (const kind of model.kinds) {
    const group = kind.group ?? kind.name;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(kind);
  }
  return [
    el("label", { className: "field" }, "Its name", name),
    el("label", { className: "check" }, shows, "This photo shows it"),
    el("p", { className: "small", textContent: "Fill in what you know and leave the rest empty. New names are allowed." }),
    ...[...groups].map(([group, kinds]) => (kinds[0].group === null ? (kinds[0].binary ? yesOrNo(group) : oneLabel(group)) : allOf(group, kinds))),
    ...model.numbers.map(oneValue),
    button("known", "It is in the list after all", known, "quiet"),
  ];
}

/** A field for a label of a kind, with its labels as suggestions. */
function oneLabel(kind) {
  count += 1;
  const list = el("datalist", { id: `offered-${count}` });
  let pendingRequest = null;
  const input = el("input", { type: "text", "data-key": `kind ${kind}`, maxLength: 200, autocomplete: "off", value: form.fields[kind]?.[0] ?? "", oninput: change, onfocus: offer });
  input.setAttribute("list", list.id);
  function change() {
    form.fields[kind] = input.value.trim() ? [input.value.trim()] : [];
    offer();
  }
  async function offer() {
    pendingRequest?.abort();
    pendingRequest = new AbortController();
    const found = await findLabels(kind, input.value.trim(), pendingRequest.signal).catch(() => null); // the field works without suggestions
    if (found) list.replaceChildren(...found.labels.map((label) => el("option", { value: label })));
  }
  return el("label", { className: "field" }, kind, input, list);
}

/** A number: a value, a value with its spread, or a range. */
function oneValue({ name, unit }) {
  const change = () => { form.fields[name] = input.value.trim() ? [input.value.trim()] : []; };
  const input = el("input", { type: "text", "data-key": `number ${name}`, maxLength: 60, autocomplete: "off", placeholder: "12.5, or 12.5 +- 1.5, or 10..15", value: form.fields[name]?.[0] ?? "", oninput: change });
  return el("label", { className: "field" }, unit ? `${name} in ${unit}` : name, input);
}

function yesOrNo(kind) {
  const [now] = form.fields[kind] ?? [];
  const choice = (label, words) => el("option", { value: label, textContent: words, selected: label === (now ?? "") });
  const select = el("select", { "data-key": `kind ${kind}`, onchange: () => { form.fields[kind] = select.value ? [select.value] : []; } }, choice("", "unknown"), choice("yes", "yes"), choice("no", "no"));
  return el("label", { className: "field" }, kind, select);
}

/** A group of binary kinds: selected ones are yes, and if any is selected the others are no. */
function allOf(group, kinds) {
  const chips = kinds.map((kind) => {
    const has = () => (form.fields[group] ?? []).includes(kind.part);
    const toggle = () => {
      form.fields[group] = has() ? form.fields[group].filter((part) => part !== kind.part) : [...(form.fields[group] ?? []), kind.part];
      chip.setAttribute("aria-pressed", String(has()));
    };
    const chip = button(`part ${kind.name}`, kind.part, toggle, "chip");
    chip.setAttribute("aria-pressed", String(has()));
    return chip;
  });
  return el("div", { className: "field", role: "group", "aria-label": group }, el("span", { textContent: `${group}: select all that apply` }), el("div", { className: "chips" }, ...chips));
}

const parents = () => Object.entries(form.fields).flatMap(([kind, labels]) => labels.map((label) => `${kind}=${label}`));

// ---- the outcome ----------------------------------------------------------------------------------------------------

function outcome(onTaught, redraw, next) {
  const { lesson, changes, new_labels: newLabels } = lastLesson;
  const undo = async () => {
    problem = "";
    try {
      lastLesson = await deleteLesson(lesson.id, person());
      onTaught(lastLesson);
    } catch (error) {
      problem = explain(error);
    }
    redraw();
  };
  const done = () => {
    resetTeaching();
    redraw();
  };
  const [change] = changes;
  const added = Object.entries(newLabels).flatMap(([kind, labels]) => labels.map((label) => (kind === "fine" ? label : `${kind} ${label}`)));
  return [
    el("h2", { textContent: lesson.forgotten ? "Removed" : "Learned" }),
    el("p", { className: "ask", role: "status" }, lesson.forgotten ? "Removed: " : lesson.photos.length ? "This is " : "Without a photo: ", el("b", { textContent: lesson.label }), "."),
    added.length && !lesson.forgotten ? el("p", { className: "small", textContent: `New: ${added.join(", ")}` }) : null,
    el(
      "div",
      { className: "answers" },
      ...(next && !lesson.forgotten ? [button("next", `Next (${next.left} left)`, next.go, "primary")] : []),
      ...(lesson.forgotten ? [] : [button("undo", "Undo", undo)]),
      ...(next && !lesson.forgotten ? [] : [button("done", "Done", done)]),
    ),
    change ? comparison(lesson, change) : null, // below the buttons, as it is long on a phone
    lessons(onTaught, redraw),
  ].filter(Boolean);
}

/** A table of the probabilities before and after the lesson: its label, then its relatives, the most changed first. */
function comparison(lesson, change) {
  const same = (shares) => (Object.keys(shares).length ? `the same ${Object.keys(shares).join(", ")}` : "");
  const rows = [
    [lesson.label, change.label_before, change.label_after, ""],
    ...change.relatives.slice(0, MAX_CHANGES).map(({ label, before, after, shares }) => [label, before, after, same(shares)]),
  ];
  const cell = (share, className) => el("td", {}, el("span", { className: "value", textContent: percent(share) }), el("span", { className: `bar ${className}`, style: { "--share": share }, "aria-hidden": "true" }));
  return el(
    "table",
    { className: "changes" },
    el("thead", {}, el("tr", {}, el("th", { textContent: "label" }), el("th", { textContent: "before" }), el("th", { textContent: "now" }))),
    el("tbody", {}, ...rows.map(([label, was, now, words]) => el("tr", {}, el("th", { scope: "row", title: label }, label, words ? el("span", { className: "small", textContent: words }) : null), cell(was, "was"), cell(now, "now")))),
  );
}

// ---- all lessons ----------------------------------------------------------------------------------------------------

/** The last lessons, loaded when the list is opened, each with a button to remove it. */
function lessons(onTaught, redraw) {
  const list = el("ul", { className: "lessons" });
  const details = el("details", { ontoggle: () => details.open && load() }, el("summary", { textContent: "Lessons so far" }), list);
  async function load() {
    try {
      const found = await getLessons(MAX_LESSONS);
      list.replaceChildren(...found.lessons.map(row), ...(found.count > found.lessons.length ? [el("li", { textContent: `and ${found.count - found.lessons.length} earlier` })] : []));
      if (!found.count) list.replaceChildren(el("li", { textContent: "Nothing yet." }));
    } catch (error) {
      list.replaceChildren(el("li", { textContent: explain(error) }));
    }
  }
  function row(lesson) {
    const remove = async () => {
      problem = "";
      try {
        await deleteLesson(lesson.id, person());
        await load();
        onTaught();
      } catch (error) {
        problem = explain(error);
        redraw();
      }
    };
    const what = [lesson.photos.length ? `${lesson.photos.length} photo${lesson.photos.length === 1 ? "" : "s"}` : "no photo", lesson.person, new Date(lesson.at).toLocaleString()];
    return el("li", {}, el("span", {}, el("b", { textContent: lesson.label }), el("span", { className: "small", textContent: what.filter(Boolean).join(" · ") })), button(`remove ${lesson.id}`, "Remove", remove, "quiet"));
  }
  return details;
}
