// The labelling page as a whole: the person, the open view, the keys, and the saving state.

import { byId, fill } from "/shared/elements.js";
import { readAddress } from "./address.js";
import { ClassView } from "./class_view.js";
import { CompareView } from "./compare_view.js";
import { canChoose, openConflicts } from "./conflict_dialog.js";
import { askText, dialogIsOpen, say } from "./dialogs.js";
import { openFiles } from "./files_dialog.js";
import { GridView } from "./grid_view.js";
import { openHelp } from "./help_dialog.js";
import { meaning, withKey } from "./keys.js";
import { person, setPerson } from "./label_api.js";
import { likeliestFirst, setLikeliestFirst } from "./likeliest.js";
import { changed, follow, loadStart, markCellsStale, model, onChange, renaming, saver, undo } from "./model.js";
import { openNames } from "./names_dialog.js";
import { isAwaited } from "./outcome.js";
import { TeamView } from "./team_view.js";
import { countUnresolved, openUnresolved } from "./unresolved.js";

const root = byId("view");
const touchBar = document.querySelector(".touch");
const views = {
  class: new ClassView(root, { toggleOrder }),
  grid: new GridView(root, { openClass: (fine) => show("class", fine), toggleOrder }),
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

/** Open a view at a class or kind; `more` has further options of the view. */
async function show(name, place, more) {
  current = name;
  touchBar.hidden = name === "team" || name === "compare";
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
  order: toggleOrder,
};

/** Order labels by the probabilities of the model, or as in their kinds. */
function toggleOrder() {
  if (!model.beliefs) return say("There are no probabilities: start with --data and --model.");
  setLikeliestFirst(!likeliestFirst());
  changed("cells");
  say(likeliestFirst() ? "The likeliest labels come first." : "Labels are in their original order.");
}

/** Actions that need at least one kind. */
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
  // Enter and Space press a button that has the keyboard focus.
  if (["Enter", " "].includes(event.key) && event.target.closest("button:focus-visible, a:focus-visible")) return;
  const found = meaning(event);
  if (!found) return;
  const action = found.action && actionNamed(found.action);
  if (found.action && !action) return;
  event.preventDefault();
  if (IMMEDIATE.has(found.action) && !(renaming.held && found.action === "grid")) return action();
  waiting.push(action ?? (() => choose(found)));
  drain();
});

// Actions of the page run immediately. Other keys that are pressed while a class is being loaded are for that class and wait.
const IMMEDIATE = new Set(["search", "help", "back", "grid", "compare", "team", "files", "filter"]);
const waiting = [];

function drain() {
  while (waiting.length && !renaming.held && !views[current].loading) waiting.shift()();
}

// While names are being replaced, the screen shows the old ones, so clicks are rejected with a message.
for (const place of [root, touchBar]) {
  const reject = (event) => {
    if (!renaming.held) return;
    event.stopPropagation();
    event.preventDefault();
    say("Somebody has just changed names: please choose again.");
  };
  place.addEventListener("click", reject, true);
}

// ---- the bar at the top ----------------------------------------------------------------------------------------------

const WORDS = { saved: "Saved", saving: "Saving …", "not saved": "Not saved", writing: "Note not saved yet", open: "Needs attention" };
let saving = { name: "saved", waiting: 0, reason: "" };
let shownState = "";

/** Show the saving state: edits that are being sent, then an unsaved note, then what needs the attention of the person. */
function showState(state = saving) {
  saving = state;
  const { waiting, reason } = saving;
  const name = saving.name !== "saved" ? saving.name : views.class.note.writing ? "writing" : countUnresolved() ? "open" : "saved";
  const now = JSON.stringify([name, waiting, reason, countUnresolved()]);
  if (now === shownState) return;
  shownState = now;
  const pill = byId("state");
  pill.dataset.state = name;
  fill(pill, WORDS[name], name === "not saved" && ` (${waiting}) – try again`, name === "open" && ` (${countUnresolved()})`);
  const open = "Conflicts, and edits that were refused: click to see them";
  pill.title = name === "open" ? open : reason ? `${reason}; trying again automatically` : "";
}

function pressState() {
  if (saver.idle && countUnresolved()) openUnresolved((fine, more) => show("class", fine, more));
  else saver.retry();
}

async function askPerson(title) {
  const hint = "Your decisions are stored under this name. There is no account; the name stays in this browser.";
  const name = await askText(title, "Your name", { value: person() ?? "", action: "Continue", hint });
  if (name) setPerson(name.slice(0, 80));
  byId("person").textContent = person() ?? "Who are you?";
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = localStorage.getItem("finegraph.theme") ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  localStorage.setItem("finegraph.theme", next);
  theme(next);
}

/** Reload everything after names have changed; `classes`: also those of classes, so that the open one may be gone. */
function reload(classes) {
  renaming.done = renaming.done.then(() => rename(classes)).catch((fault) => reportError(fault));
}

/** Load the new names, then reopen the view. Until the names are loaded the page works with the old ones. While the view
 * is being reopened keys wait; they are dropped if the view then shows another class or kind. */
async function rename(classes) {
  let name;
  let place;
  await retryWhileOffline(() =>
    loadStart(() => {
      name = current;
      place = views[name].place?.();
      renaming.held = true;
      views.class.prefetch.clear();
      markCellsStale();
    }),
  );
  try {
    if (current === name) await retryWhileOffline(async () => (place ? views[name].reopen(place, classes) : views[name].changed("names", { classes })));
  } finally {
    renaming.held = false;
  }
  if (current !== name || !isSamePlace(place, views[name].place?.())) dropKeys();
  drain();
  showState();
}

/** Repeat an action while the server cannot be reached. */
async function retryWhileOffline(action) {
  for (;;) {
    const problem = await action().then(() => undefined, (fault) => fault);
    if (problem === undefined) return;
    if (problem.status !== 0 && !(problem.status >= 500)) throw problem;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

/** Whether keys still mean the same: same class, same kind, and the same labels up to new ones at the end. */
function isSamePlace(before, now) {
  if (!before || !now) return before === now;
  return before.number === now.number && before.kind === now.kind && before.labels.every((label, index) => now.labels[index] === label);
}

function dropKeys() {
  if (waiting.splice(0).length) say("Names have changed: your last keys were ignored.");
}

const renamesClasses = ({ edits, more }) => more || edits.some((edit) => edit.target === "fine" || edit.target === "graph");
const mayRenameClasses = ({ edit, answer }) => answer.names && edit.path !== "/api/accept" && !(edit.path === "/api/apply" && !edit.body.change.change.includes("fine"));

/** Whether an action changed more cells than its response lists. */
const changedMoreThanListed = ({ edits, cells }) => edits > 1 && edits > cells.length;

onChange((what, detail) => {
  if (what === "save") return showState(detail);
  if (what === "conflicts" || what === "writing") return showState();
  if (what === "ready") {
    drain();
    return showState();
  }
  if (what === "lost") return waiting.splice(0); // these keys were for a class that could not be loaded
  if (what === "others" && detail.names) return reload(renamesClasses(detail));
  if (what === "saved" && (detail.answer.names || changedMoreThanListed(detail.answer))) {
    say(detail.answer.text);
    return reload(mayRenameClasses(detail));
  }
  if (what === "refused") showConflicts(detail);
  views[current].changed(what, detail);
  showState();
});

/** Open a dialog for conflicts that the view does not show. A visible cell shows its own conflict; an open note merges both texts. */
function showConflicts({ edit, problem, conflicts }) {
  if (isAwaited(edit)) return; // an open dialog shows the outcome
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
  byId("state").addEventListener("click", pressState);
  byId("person").addEventListener("click", () => askPerson("Who are you?"));
  byId("theme").addEventListener("click", toggleTheme);
  byId("help").addEventListener("click", openHelp);
  byId("files").addEventListener("click", openFiles);
  byId("names").addEventListener("click", () => actionNamed("names")());
  for (const touch of document.querySelectorAll("[data-action]")) {
    touch.addEventListener("click", () => actionNamed(touch.dataset.action)?.());
  }
  for (const tab of document.querySelectorAll("[data-view]")) tab.addEventListener("click", () => show(tab.dataset.view));
  byId("person").textContent = person() ?? "Who are you?";
  while (!person()) await askPerson("Welcome");
  await loadStart();
  byId("name").textContent = model.name;
  document.title = `${model.name} – label`;
  await openAddress();
  addEventListener("hashchange", () => {
    waiting.splice(0); // these keys were for the former view
    openAddress();
  });
  saver.run();
  follow();
}

start().catch((problem) => say(problem.message, { fault: true }));
