// What the page knows: the kinds, the cells that were loaded, and what was decided here but is not saved yet.
//
// A cell of the server is replaced only by a newer one. What a person chose is shown at once and put back if the server
// refuses it. `seen` is the version that the person was looking at when deciding; for a cell that this page has just
// changed itself, it is the version that this change made. Edits say by numbers what their names meant here, so that
// they hold when somebody renames something before they are sent.

import { get, person, post, setStore } from "./api.js";
import { say } from "./dialogs.js";
import { Saver } from "./saving.js";
import { labelsIn } from "./values.js";

const key = (fine, kind) => `${fine}\u0000${kind}`;

export const model = {
  name: "",
  store: null,
  kinds: [],
  progress: { kinds: [], people: [], classes: 0 },
  version: 0,
  photos: false,
};

const cells = new Map();
const old = new Set(); // cells from before names have changed: any newer answer replaces them, whatever its version
const classNumbers = new Map();
const believed = new Map(); // what the model believes: class and kind -> label -> probability
const pending = new Map();
const own = new Map();
const conflicts = new Map();
const listeners = new Set();
const ownBatches = new Set();
let followed = 0;

/** Call a function whenever something that is shown may have changed. `what` is "cells", "saved", "refused", "others",
 * "names", "progress", "save", "conflicts", "writing" (a note), "ready" or "lost" (what keys wait for did not come); where
 * `detail.places` is given, only these cells have changed. */
export const onChange = (listener) => listeners.add(listener);
export const changed = (what, detail) => listeners.forEach((listener) => listener(what, detail));

/** Load what every view needs; `before` is called when it is there and nothing has been replaced yet. */
export async function loadStart(before = () => {}) {
  const start = await get("/api/start");
  if (model.store !== null && model.store !== start.store) return location.reload(); // another store is served by now
  before();
  Object.assign(model, start);
  setStore(model.store);
  saver.open(model.store);
  followed = model.version;
}

/** Load the progress again once the keys rest, and every few seconds while they do not. */
export function loadProgress() {
  clearTimeout(progressTimer);
  progressSince ??= performance.now();
  progressTimer = setTimeout(async () => {
    progressSince = undefined;
    model.progress = await get("/api/progress").catch(() => model.progress);
    changed("progress");
  }, Math.max(0, Math.min(REST, progressSince + LONGEST_WITHOUT - performance.now())));
}
const REST = 800;
const LONGEST_WITHOUT = 5000;
let progressTimer;
let progressSince;

export const kindNamed = (name) => model.kinds.find((kind) => kind.name === name);
export const progressOf = (name) => model.progress.kinds.find((one) => one.kind === name);

/** Take note of cells as the server has them. */
export function putCells(found) {
  for (const cell of found) {
    const place = key(cell.fine, cell.kind);
    if (old.delete(place) || (cells.get(place)?.version ?? -1) <= cell.version) cells.set(place, cell);
  }
}

/** Take note of classes as the server has them: their numbers and cells. */
export function putRows(rows) {
  for (const row of rows) {
    if (row.removed) continue; // another class may have its name by now
    classNumbers.set(row.fine, row.number);
    for (const [kind, belief] of Object.entries(row.beliefs)) believed.set(key(row.fine, kind), belief);
    putCells(Object.values(row.cells));
  }
}

/** What names mean here: the numbers of a class, a kind and the labels of a value, which stay when names change. */
export function numbersOf(fine, kindName, value = null) {
  const kind = kindNamed(kindName);
  const labels = kind ? labelsIn(value).filter((label) => kind.labels.includes(label)) : [];
  const number = (label) => kind.label_numbers[kind.labels.indexOf(label)];
  return { fine: classNumbers.get(fine), kind: kind?.number, labels: Object.fromEntries(labels.map((label) => [label, number(label)])) };
}

/** A cell as the server has it. */
export const cellOf = (fine, kind) =>
  cells.get(key(fine, kind)) ?? { fine, kind, value: null, version: 0, votes: {}, disagreement: false };

/** What the model believes of a cell: label -> probability; undefined where it has said nothing. */
export const beliefOf = (fine, kind) => believed.get(key(fine, kind));

/** The value to show: what was chosen here, or what the server has. */
export function shownValue(fine, kind) {
  const chosen = pending.get(key(fine, kind));
  return chosen ? chosen.value : cellOf(fine, kind).value;
}

export const isPending = (fine, kind) => pending.has(key(fine, kind));
export const conflictOf = (fine, kind) => conflicts.get(key(fine, kind));
export const openConflictList = () => [...conflicts.values()];

/** Note that nobody has chosen between the values of a conflict yet; it is kept over a reload. */
function keepConflict(conflict) {
  conflicts.set(placeOfConflict(conflict), conflict);
  saver.keep();
}

/** A conflict is over: one of its values was chosen. */
export function forgetConflict(conflict) {
  forgetConflictAt(placeOfConflict(conflict));
}

function forgetConflictAt(place) {
  if (!conflicts.delete(place)) return;
  saver.keep();
  changed("conflicts");
}

function placeOfConflict({ what, fine, kind, number }) {
  if (what === "photo") return photoPlace(number, kind);
  return what === "note" ? notePlace(fine) : key(fine, kind);
}

/** After names have changed, a cell is as it was only until it is loaded again: its name may be that of another by now.
 * Until then its version still keeps a decision from replacing what nobody has looked at. Conflicts stay: nobody has
 * chosen between their values yet. */
export function forgetCells() {
  for (const place of cells.keys()) old.add(place);
  believed.clear();
}

/** Whether names are being replaced: from when the new ones are there until what is shown has them. */
export const renaming = { held: false, done: Promise.resolve() };

// ---- saving ----------------------------------------------------------------------------------------------------------

export const saver = new Saver(
  (state) => changed("save", state),
  (edit, answer) => saved(edit, answer),
  (edit, problem) => refused(edit, problem),
);
saver.conflicts = () => [...conflicts.values()];
saver.takeConflicts = (found) => {
  for (const conflict of found) if (!conflicts.has(placeOfConflict(conflict))) conflicts.set(placeOfConflict(conflict), conflict);
  if (found.length) changed("conflicts");
};
saver.prepare = async (edit) => {
  if (edit.path === "/api/undo" && edit.body.number === undefined) {
    edit.body.batch ??= (await get("/api/undoable", { person: edit.body.person })).batch;
    if (edit.body.batch === null) return say("You have nothing to undo.");
  }
  for (const cell of edit.body.cells ?? edit.body.named ?? []) {
    const mine = own.get(key(cell.fine, cell.kind));
    if (cell.follows && mine > cell.seen) cell.seen = mine;
    delete cell.follows;
  }
  for (const { fine, kind, follows, suggestion } of edit.places ?? []) {
    const mine = own.get(key(fine, kind));
    if (!follows || mine === undefined) continue;
    const seen = suggestion === undefined ? edit.body : edit.body.suggestions;
    const name = suggestion ?? "seen";
    if (mine > seen[name]) seen[name] = mine;
  }
  const mine = own.get(otherPlace(edit));
  if (mine > edit.body.seen) edit.body.seen = mine;
  return edit;
};

const photoPlace = (photo, kind) => `photo\u0000${photo}\u0000${kind}`;
const notePlace = (fine) => `note\u0000${fine}`;

/** What an edit of a photo or a note changes; other edits have no such place. */
function otherPlace({ path, body }) {
  if (path === "/api/photo") return photoPlace(body.photo, body.kind);
  return path === "/api/note" ? notePlace(body.fine) : undefined;
}

/** The cells that an edit decides, as it was made. */
const placesOf = (edit) => edit.body.cells ?? edit.places ?? [];

function saved(edit, answer) {
  ownBatches.add(answer.batch);
  // Nobody edited in between: there is nothing to ask for. Otherwise `follow` finds out what it was.
  if (answer.version - answer.edits === followed) followed = answer.version;
  const places = placesOf(edit);
  for (const cell of places) settle(cell, edit.body.edit);
  if (otherPlace(edit)) own.set(otherPlace(edit), answer.note_version ?? answer.version);
  for (const { photo, kind, version } of answer.photos ?? []) own.set(photoPlace(photo, kind), version);
  for (const { fine, version } of answer.notes ?? []) own.set(notePlace(fine), version);
  for (const cell of answer.cells ?? []) own.set(key(cell.fine, cell.kind), cell.version);
  // An edit that follows this one may know the cell by the name that it had before.
  if (places.length === 1 && answer.cells?.length === 1) own.set(key(places[0].fine, places[0].kind), answer.cells[0].version);
  saver.giveUp((other) => samePlace(other, edit));
  putCells(answer.cells ?? []);
  loadProgress();
  changed("saved", { edit, answer, places: edit.path === "/api/decide" ? edit.body.cells : undefined });
}

function refused(edit, problem) {
  for (const cell of placesOf(edit)) settle(cell, edit.body.edit);
  const found = problem.body.conflicts ?? [];
  for (const conflict of found) {
    if (conflict.what === "photo") conflict.number ??= edit.body.photo;
    if (KEPT.has(edit.path) && conflict.version > 0) keepConflict(conflict);
    if (conflict.what === "cell") own.delete(key(conflict.fine, conflict.kind));
  }
  // A conflict of a decision is shown at its cell, others in a window. What a person has chosen or written is kept until
  // they have looked at it again; what can be asked for again is only told.
  if (!found.length && PERSONAL.has(edit.path)) saver.keepRefused(edit, problem.message);
  else if (!found.length) say(`Not saved: ${problem.message}`, { fault: true });
  changed("refused", { edit, problem, conflicts: found });
}

/** Edits whose conflicts stay until the person has chosen. */
const KEPT = new Set(["/api/decide", "/api/photo", "/api/note"]);

/** Edits that hold what only a person can give. */
const PERSONAL = new Set(["/api/decide", "/api/resolve", "/api/photo", "/api/note"]);

/** Whether two edits are about one cell, label of a photo or note. */
function samePlace(one, other) {
  const names = (edit) => (otherPlace(edit) ? [otherPlace(edit)] : placesOf(edit).map(({ fine, kind }) => key(fine, kind)));
  const mine = new Set(names(one));
  return names(other).some((name) => mine.has(name));
}

function settle(cell, edit) {
  const place = key(cell.fine, cell.kind);
  if (pending.get(place)?.edit === edit) pending.delete(place);
}

/** Decide cells: [[fine, kind, value], ...] as one action. */
export function decide(changes) {
  const body = { person: person(), cells: [] };
  for (const [fine, kind, value] of changes) {
    const place = key(fine, kind);
    body.cells.push({ fine, kind, value, seen: cellOf(fine, kind).version, follows: followsOwn(place), numbers: numbersOf(fine, kind, value) });
    pending.set(place, { value });
    forgetConflictAt(place);
  }
  const edit = saver.add("/api/decide", body);
  for (const [fine, kind] of changes) pending.get(key(fine, kind)).edit = edit;
  changed("cells", { places: body.cells });
}

/** Make the value that is shown the decision of this person, unless it is already. A conflict stays: it may have come up
 * under the key, so nobody has chosen between its values. */
export function confirm(fine, kind) {
  const value = shownValue(fine, kind);
  const voted = cellOf(fine, kind).votes[person()] !== undefined;
  if (value !== null && !voted && !isPending(fine, kind) && !conflictOf(fine, kind)) decide([[fine, kind, value]]);
}

/** Whether an edit of a cell comes after another of this page that is not saved yet: it goes on from what that makes. */
const followsOwn = (place) => pending.has(place) || saver.waiting.some((edit) => edit.path === "/api/undo");

/** Accept a suggestion; one from the name of a class has no number, and its label may be new. */
export function accept({ number, fine, kind, value }) {
  if (number === null) return put("/api/accept", { named: [namedCell({ fine, kind, value })] }, { fine, kind }, value);
  put("/api/accept", { suggestions: { [number]: cellOf(fine, kind).version } }, { fine, kind, suggestion: number }, value);
}

/** A label that the name of a class suggests, as it is accepted. */
export const namedCell = ({ fine, kind, value }) => ({ fine, kind, value, seen: cellOf(fine, kind).version, follows: followsOwn(key(fine, kind)), numbers: numbersOf(fine, kind, value) });

/** Settle a disagreement with a value. */
export function resolve(fine, kind, value) {
  put("/api/resolve", { fine, kind, value, seen: cellOf(fine, kind).version, numbers: numbersOf(fine, kind, value) }, { fine, kind }, value);
}

/** An action that gives one cell a value, which is shown at once. */
function put(path, body, place, value) {
  const name = key(place.fine, place.kind);
  const places = [{ ...place, follows: followsOwn(name) }];
  conflicts.delete(name);
  pending.set(name, { value, edit: saver.add(path, { person: person(), ...body }, { places }) });
  changed("cells", { places });
}

/** Another action of this person, saved like a decision. */
export function act(path, body) {
  const place = otherPlace({ path, body });
  if (place) forgetConflictAt(place);
  return saver.add(path, { person: person(), ...body });
}

/** Undo the last action of this person. It waits in line with the edits: which one it is shows when its turn comes. */
export const undo = () => act("/api/undo", {});

/** Something that is asked and answered at once, such as a preview. */
export const askServer = (path, body) => post(path, body);

// ---- what others do --------------------------------------------------------------------------------------------------

const PAUSE = 1200;

/** Ask again and again for what others have changed. */
export async function follow() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 5 * PAUSE : PAUSE));
    const since = followed;
    const found = await get("/api/changes", { since }).catch(() => null);
    if (!found || found.version <= since || since !== followed) continue;
    followed = found.version;
    putCells(found.cells);
    const edits = found.edits.filter((edit) => !ownBatches.has(edit.batch));
    if (!edits.length) continue;
    loadProgress();
    const names = edits.some((edit) => ["fine", "kind", "label", "graph"].includes(edit.target));
    changed("others", { edits, names: names || found.more, more: found.more });
  }
}
