// The page as a whole: who works, which view is open, the keys, and whether everything is saved.

import { person, setPerson } from "./api.js";
import { ClassView } from "./class_view.js";
import { canChoose, openConflicts } from "./conflict_dialog.js";
import { askText, dialogIsOpen, say } from "./dialogs.js";
import { fill, find } from "./dom.js";
import { openFiles } from "./files_dialog.js";
import { GridView } from "./grid_view.js";
import { openHelp } from "./help_dialog.js";
import { meaning } from "./keys.js";
import { changed, follow, forgetCells, loadStart, model, onChange, saver, undo } from "./model.js";
import { openNames } from "./names_dialog.js";
import { TeamView } from "./team_view.js";

const root = find("#view");
const views = {
  class: new ClassView(root),
  grid: new GridView(root, (fine) => show("class", fine)),
};
views.team = new TeamView(root, {
  openClass: (fine) => show("class", fine),
  openGrid: (kind, filter) => {
    views.grid.query.show = filter;
    show("grid", kind);
  },
});
let current = "class";

/** Open a view. */
async function show(name, place) {
  current = name;
  find(".touch").hidden = name === "team";
  for (const [other, view] of Object.entries(views)) view.root.hidden = other !== name;
  for (const tab of document.querySelectorAll("[data-view]")) tab.setAttribute("aria-selected", String(tab.dataset.view === name));
  try {
    await views[name].open(place);
  } catch (problem) {
    say(problem.message, { fault: true });
  }
}

const everywhere = {
  undo,
  help: openHelp,
  grid: () => (current === "class" ? show("grid", views.class.kind?.name) : show("class", views.grid.row?.fine)),
  team: () => show("team"),
  names: () => openNames({ kind: model.kinds[0]?.name }),
  files: openFiles,
};

const actionNamed = (name) => views[current].actions[name] ?? everywhere[name];

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (dialogIsOpen() || typing) return;
  // Enter and Space on a button that was reached by Tab press that button.
  if (event.key === "Enter" && event.target.closest("button:focus-visible, a:focus-visible")) return;
  const found = meaning(event);
  if (!found) return;
  const action = found.action && actionNamed(found.action);
  if (found.action && !action) return;
  event.preventDefault();
  if (AT_ONCE.has(found.action)) return action();
  waiting.push(action ?? (() => views[current].choose(found.choice, found.more)));
  drain();
});

// A key that is pressed while another class is being loaded is for that class, so it waits; not so those for the page.
const AT_ONCE = new Set(["search", "help", "back", "grid", "team", "files", "filter"]);
const waiting = [];

function drain() {
  while (waiting.length && !views[current].loading) waiting.shift()();
}

// ---- the bar at the top ----------------------------------------------------------------------------------------------

const WORDS = { saved: "Saved", saving: "Saving …", "not saved": "Not saved" };

function showState({ name, waiting, reason }) {
  const pill = find("#state");
  pill.dataset.state = name;
  fill(pill, WORDS[name], name === "not saved" && ` (${waiting}) – try again`);
  pill.title = reason ? `${reason}; it is tried again by itself` : "";
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
async function reload(classes) {
  forgetCells();
  await loadStart().catch(() => {});
  changed("names", { classes });
}

const ofClasses = ({ edits, more }) => more || edits.some((edit) => edit.target === "fine" || edit.target === "graph");
const mayBeOfClasses = ({ edit, answer }) => answer.names && !(edit.path === "/api/apply" && !edit.body.change.change.includes("fine"));

/** Whether an action changed more cells than its answer lists. */
const notAllTold = ({ edits, cells }) => edits > 1 && edits > cells.length;

onChange((what, detail) => {
  if (what === "save") return showState(detail);
  if (what === "ready") return drain();
  if (what === "lost") return waiting.splice(0); // these keys were for a class that did not come
  if (what === "others" && detail.names) return reload(ofClasses(detail));
  if (what === "saved" && (detail.answer.names || notAllTold(detail.answer))) {
    say(detail.answer.text);
    return reload(mayBeOfClasses(detail));
  }
  if (what === "refused") showConflicts(detail);
  views[current].changed(what, detail);
});

/** Show conflicts that no view shows: a cell in sight shows that of a decision, a note that is open takes both texts. */
function showConflicts({ edit, problem, conflicts }) {
  const noteIsOpen = edit.path === "/api/note" && current === "class" && views.class.row?.fine === edit.body.fine;
  const inSight = ({ fine, kind }) => edit.path === "/api/decide" && views[current].shows(fine, kind);
  const hidden = conflicts.filter((conflict) => !inSight(conflict));
  if (noteIsOpen || !hidden.length) return;
  const open = hidden.filter(canChoose);
  if (open.length) openConflicts(edit, open, problem.message);
  else say(`Not saved: ${problem.message}`, { fault: true });
}

/** Open the view that the address names. */
function openAddress() {
  const [, name, place] = location.hash.split("/");
  return show(name in views ? name : "class", place && decodeURIComponent(place));
}

async function start() {
  theme(localStorage.getItem("finegraph.theme"));
  find("#state").addEventListener("click", () => saver.retry());
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
  addEventListener("hashchange", openAddress);
  saver.run();
  follow();
}

start().catch((problem) => say(problem.message, { fault: true }));
