// The page as a whole: who works, which view is open, the keys, and whether everything is saved.

import { readAddress } from "./address.js";
import { person, setPerson } from "./api.js";
import { ClassView } from "./class_view.js";
import { CompareView } from "./compare_view.js";
import { canChoose, openConflicts } from "./conflict_dialog.js";
import { askText, dialogIsOpen, say } from "./dialogs.js";
import { fill, find } from "./dom.js";
import { openFiles } from "./files_dialog.js";
import { GridView } from "./grid_view.js";
import { openHelp } from "./help_dialog.js";
import { meaning, withKey } from "./keys.js";
import { leftOpen, openLeft } from "./left_open.js";
import { changed, follow, forgetCells, loadStart, model, onChange, renaming, saver, undo } from "./model.js";
import { openNames } from "./names_dialog.js";
import { likeliestFirst, setLikeliestFirst } from "./likeliest.js";
import { isAwaited } from "./outcome.js";
import { TeamView } from "./team_view.js";

const root = find("#view");
const views = {
  class: new ClassView(root, { turnOrder }),
  grid: new GridView(root, { openClass: (fine) => show("class", fine), turnOrder }),
};
views.compare = new CompareView(root);
views.team = new TeamView(root, {
  openClass: (fine) => show("class", fine),
  openGrid: (kind, filter) => {
    views.grid.query.show = filter;
    show("grid", kind);
  },
});
let current = "class";

/** Open a view at a place; `more` says more exactly where that is. */
async function show(name, place, more) {
  current = name;
  find(".touch").hidden = name === "team" || name === "compare";
  for (const [other, view] of Object.entries(views)) view.root.hidden = other !== name;
  for (const tab of document.querySelectorAll("[data-view]")) tab.setAttribute("aria-selected", String(tab.dataset.view === name));
  try {
    await views[name].open(place, more);
  } catch (problem) {
    say(problem.message, { fault: true });
  }
}

const everywhere = {
  undo,
  help: openHelp,
  compare: () => show("compare"),
  grid: () => (current === "class" ? show("grid", views.class.kind?.name, { number: views.class.row?.number }) : show("class", views.grid.row?.fine)),
  team: () => show("team"),
  names: () => openNames({ kind: model.kinds[0]?.name }),
  files: openFiles,
  order: turnOrder,
};

/** Order labels by what the model believes, or as the kinds have them. */
function turnOrder() {
  if (!model.beliefs) return say("No model has looked at the photos: start with --data and --model to see probabilities.");
  setLikeliestFirst(!likeliestFirst());
  changed("cells");
  say(likeliestFirst() ? "The likeliest labels come first." : "Labels stand in their own order.");
}

/** What means nothing as long as there are no kinds. */
const NEED_KINDS = new Set(["next", "previous", "save", "clear", "find", "accept", "acceptAll", "resolve", "history", "photos", "order"]);
const noKinds = () => say(withKey("There are no kinds yet: add one", "names"));

function actionNamed(name) {
  if (!model.kinds.length && NEED_KINDS.has(name)) return noKinds;
  return views[current].actions[name] ?? everywhere[name];
}

const choose = ({ choice, more }) => (model.kinds.length ? views[current].choose(choice, more) : noKinds());

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (dialogIsOpen() || typing) return;
  // Enter and Space on a button that was reached by Tab press that button.
  if (["Enter", " "].includes(event.key) && event.target.closest("button:focus-visible, a:focus-visible")) return;
  const found = meaning(event);
  if (!found) return;
  const action = found.action && actionNamed(found.action);
  if (found.action && !action) return;
  event.preventDefault();
  if (AT_ONCE.has(found.action) && !(renaming.held && found.action === "grid")) return action();
  waiting.push(action ?? (() => choose(found)));
  drain();
});

// A key that is pressed while another class is being loaded is for that class, so it waits; not so those for the page.
const AT_ONCE = new Set(["search", "help", "back", "grid", "compare", "team", "files", "filter"]);
const waiting = [];

function drain() {
  while (waiting.length && !renaming.held && !views[current].loading) waiting.shift()();
}

// What is on the screen has the old names for a moment: a touch is told so, rather than taken for something else.
for (const place of [root, find(".touch")]) {
  const wait = (event) => {
    if (!renaming.held) return;
    event.stopPropagation();
    event.preventDefault();
    say("Somebody has just changed names: choose again.");
  };
  place.addEventListener("click", wait, true);
}

// ---- the bar at the top ----------------------------------------------------------------------------------------------

const WORDS = { saved: "Saved", saving: "Saving …", "not saved": "Not saved", writing: "Note not saved yet", open: "Please look" };
let saving = { name: "saved", waiting: 0, reason: "" };
let shownState = "";

/** Show whether all is saved: what is sent, then a note that is being written, then what waits for the person. */
function showState(told = saving) {
  saving = told;
  const { waiting, reason } = saving;
  const name = saving.name !== "saved" ? saving.name : views.class.note.writing ? "writing" : leftOpen() ? "open" : "saved";
  const now = JSON.stringify([name, waiting, reason, leftOpen()]);
  if (now === shownState) return;
  shownState = now;
  const pill = find("#state");
  pill.dataset.state = name;
  fill(pill, WORDS[name], name === "not saved" && ` (${waiting}) – try again`, name === "open" && ` (${leftOpen()})`);
  const open = "Conflicts, and edits that were refused: click to see them";
  pill.title = name === "open" ? open : reason ? `${reason}; trying again automatically` : "";
}

function pressState() {
  if (saver.idle && leftOpen()) openLeft((fine, more) => show("class", fine, more));
  else saver.retry();
}

async function askPerson(title) {
  const hint = "Your decisions are kept under this name. There is no account; it stays in this browser.";
  const name = await askText(title, "Your name", { value: person() ?? "", action: "Go on", hint });
  if (name) setPerson(name.slice(0, 80));
  find("#person").textContent = person() ?? "Who are you?";
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function turnTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = localStorage.getItem("finegraph.theme") ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  localStorage.setItem("finegraph.theme", next);
  theme(next);
}

/** After names have changed, load everything anew; `classes`: those of classes too, so that the open one may be gone. */
function reload(classes) {
  renaming.done = renaming.done.then(() => rename(classes)).catch((fault) => reportError(fault));
}

/** Until the new names are there, everything goes on with the old ones. From then on keys wait until the view has them
 * too, and are dropped if they would be for something else than what the person was looking at. */
async function rename(classes) {
  let name;
  let place;
  await patiently(() =>
    loadStart(() => {
      name = current;
      place = views[name].place?.();
      renaming.held = true;
      views.class.ahead.forget();
      forgetCells();
    }),
  );
  try {
    if (current === name) await patiently(async () => (place ? views[name].reopen(place, classes) : views[name].changed("names", { classes })));
  } finally {
    renaming.held = false;
  }
  if (current !== name || !stillThere(place, views[name].place?.())) dropKeys();
  drain();
  showState();
}

/** Do something again and again while the server is away. */
async function patiently(action) {
  for (;;) {
    const problem = await action().then(() => undefined, (fault) => fault);
    if (problem === undefined) return;
    if (problem.status !== 0 && !(problem.status >= 500)) throw problem;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Whether a key means the same as before: the class, the kind and, up to new ones at the end, its labels. */
function stillThere(before, now) {
  if (!before || !now) return before === now;
  return before.number === now.number && before.kind === now.kind && before.labels.every((label, index) => now.labels[index] === label);
}

function dropKeys() {
  if (waiting.splice(0).length) say("Names have changed: what you typed was not used.");
}

const ofClasses = ({ edits, more }) => more || edits.some((edit) => edit.target === "fine" || edit.target === "graph");
const mayBeOfClasses = ({ edit, answer }) => answer.names && edit.path !== "/api/accept" && !(edit.path === "/api/apply" && !edit.body.change.change.includes("fine"));

/** Whether an action changed more cells than its answer lists. */
const notAllTold = ({ edits, cells }) => edits > 1 && edits > cells.length;

onChange((what, detail) => {
  if (what === "save") return showState(detail);
  if (what === "conflicts" || what === "writing") return showState();
  if (what === "ready") {
    drain();
    return showState();
  }
  if (what === "lost") return waiting.splice(0); // these keys were for a class that did not come
  if (what === "others" && detail.names) return reload(ofClasses(detail));
  if (what === "saved" && (detail.answer.names || notAllTold(detail.answer))) {
    say(detail.answer.text);
    return reload(mayBeOfClasses(detail));
  }
  if (what === "refused") showConflicts(detail);
  views[current].changed(what, detail);
  showState();
});

/** Show conflicts that no view shows: a cell in sight shows that of a decision, a note that is open takes both texts. */
function showConflicts({ edit, problem, conflicts }) {
  if (isAwaited(edit)) return; // the window that made it shows what became of it
  const noteIsOpen = current === "class" && views.class.note.isOf(edit);
  const inSight = ({ fine, kind }) => edit.path === "/api/decide" && views[current].shows(fine, kind);
  const hidden = conflicts.filter((conflict) => !inSight(conflict));
  if (noteIsOpen || !hidden.length) return;
  const open = hidden.filter(canChoose);
  if (open.length) openConflicts(edit, open, problem.message);
  else say(`Not saved: ${problem.message}`, { fault: true });
}

/** Open the view that the address names. */
function openAddress() {
  const { view, place, photo } = readAddress();
  return show(view, place, { photo });
}

async function start() {
  theme(localStorage.getItem("finegraph.theme"));
  find("#state").addEventListener("click", pressState);
  find("#person").addEventListener("click", () => askPerson("Who are you?"));
  find("#theme").addEventListener("click", turnTheme);
  find("#help").addEventListener("click", openHelp);
  find("#files").addEventListener("click", openFiles);
  find("#names").addEventListener("click", () => actionNamed("names")());
  for (const touch of document.querySelectorAll("[data-action]")) {
    touch.addEventListener("click", () => actionNamed(touch.dataset.action)?.());
  }
  for (const tab of document.querySelectorAll("[data-view]")) tab.addEventListener("click", () => show(tab.dataset.view));
  find("#person").textContent = person() ?? "Who are you?";
  while (!person()) await askPerson("Welcome");
  await loadStart();
  find("#name").textContent = model.name;
  document.title = `${model.name} – label`;
  await openAddress();
  addEventListener("hashchange", () => {
    waiting.splice(0); // these keys were for what was open before
    openAddress();
  });
  saver.run();
  follow();
}

start().catch((problem) => say(problem.message, { fault: true }));
