// The state of the page: the kinds, the loaded cells, and decisions that are not saved yet.
//
// A cell is replaced only by a newer version. A decision is shown at once and rolled back if the server refuses it. `seen`
// is the version that the person saw when deciding; if this page has just changed the cell itself, it is the version after
// that change. Edits contain the numbers of classes, kinds and labels beside their names, so that they stay valid if
// somebody renames something before they are sent.

import { say } from "./dialogs.js";
import { get, person, post, setStore } from "./label_api.js";
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
const staleCells = new Set(); // cells loaded before names changed: the next response replaces them, whatever its version
const classNumbers = new Map();
const beliefs = new Map(); // class and kind -> label -> probability by the model
const pending = new Map();
const ownVersions = new Map(); // the versions after the edits of this page
const conflicts = new Map();
const listeners = new Set();
const ownBatches = new Set();
let lastVersion = 0; // of the store, as far as the page has lastVersion it

/** Register a listener for changes. `what` is "cells", "saved", "refused", "others", "names", "progress", "save",
 * "conflicts", "writing" (a note), "ready" or "lost" (the class that keys wait for could not be loaded). If
 * `detail.places` is given, only these cells have changed. */
export const onChange = (listener) => listeners.add(listener);
export const changed = (what, detail) => listeners.forEach((listener) => listener(what, detail));

/** Load the state that every view needs; `before` is called after loading, before anything is replaced. */
export async function loadStart(before = () => {}) {
  const start = await get("/api/start");
  if (model.store !== null && model.store !== start.store) return location.reload(); // the server has another store now
  before();
  Object.assign(model, start);
  setStore(model.store);
  saver.open(model.store);
  lastVersion = model.version;
}

/** Reload the progress after a pause of the person, at the latest after MAX_PROGRESS_AGE. */
export function loadProgress() {
  clearTimeout(progressTimer);
  progressSince ??= performance.now();
  progressTimer = setTimeout(async () => {
    progressSince = undefined;
    model.progress = await get("/api/progress").catch(() => model.progress);
    changed("progress");
  }, Math.max(0, Math.min(PROGRESS_PAUSE, progressSince + MAX_PROGRESS_AGE - performance.now())));
}
const PROGRESS_PAUSE = 800;
const MAX_PROGRESS_AGE = 5000;
let progressTimer;
let progressSince;

export const kindNamed = (name) => model.kinds.find((kind) => kind.name === name);
export const progressOf = (name) => model.progress.kinds.find((one) => one.kind === name);

/** Store cells of the server. */
export function putCells(found) {
  for (const cell of found) {
    const place = key(cell.fine, cell.kind);
    if (staleCells.delete(place) || (cells.get(place)?.version ?? -1) <= cell.version) cells.set(place, cell);
  }
}

/** Store classes of the server: their numbers, cells and beliefs. */
export function putRows(rows) {
  for (const row of rows) {
    if (row.removed) continue; // another class may have its name now
    classNumbers.set(row.fine, row.number);
    for (const [kind, belief] of Object.entries(row.beliefs)) beliefs.set(key(row.fine, kind), belief);
    putCells(Object.values(row.cells));
  }
}

/** The numbers of a class, a kind and the labels of a value; they stay the same when names change. */
export function numbersOf(fine, kindName, value = null) {
  const kind = kindNamed(kindName);
  const labels = kind ? labelsIn(value).filter((label) => kind.labels.includes(label)) : [];
  const number = (label) => kind.label_numbers[kind.labels.indexOf(label)];
  return { fine: classNumbers.get(fine), kind: kind?.number, labels: Object.fromEntries(labels.map((label) => [label, number(label)])) };
}

/** A cell of the server. */
export const cellOf = (fine, kind) =>
  cells.get(key(fine, kind)) ?? { fine, kind, value: null, version: 0, votes: {}, disagreement: false };

/** The probabilities of the model for a cell: label -> probability; undefined if there are none. */
export const beliefOf = (fine, kind) => beliefs.get(key(fine, kind));

/** The value to show: the pending decision of this page, or the value of the server. */
export function shownValue(fine, kind) {
  const chosen = pending.get(key(fine, kind));
  return chosen ? chosen.value : cellOf(fine, kind).value;
}

export const isPending = (fine, kind) => pending.has(key(fine, kind));
export const conflictOf = (fine, kind) => conflicts.get(key(fine, kind));
export const openConflictList = () => [...conflicts.values()];

/** Store an unresolved conflict; it survives a reload. */
function keepConflict(conflict) {
  conflicts.set(placeOfConflict(conflict), conflict);
  saver.persist();
}

/** Remove a conflict, after one of its values was chosen. */
export function forgetConflict(conflict) {
  forgetConflictAt(placeOfConflict(conflict));
}

function forgetConflictAt(place) {
  if (!conflicts.delete(place)) return;
  saver.persist();
  changed("conflicts");
}

function placeOfConflict({ what, fine, kind, number }) {
  if (what === "photo") return photoPlace(number, kind);
  return what === "note" ? notePlace(fine) : key(fine, kind);
}

/** Mark all cells as stale after names have changed, since their names may now belong to others. They stay until they are
 * loaded again, so that their versions still prevent overwriting unseen values. Conflicts stay until they are resolved. */
export function markCellsStale() {
  for (const place of cells.keys()) staleCells.add(place);
  beliefs.clear();
}

/** The replacement of names: `held` is true from when new names are loaded until the view shows them. */
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
    const ownVersion = ownVersions.get(key(cell.fine, cell.kind));
    if (cell.follows && ownVersion > cell.seen) cell.seen = ownVersion;
    delete cell.follows;
  }
  for (const { fine, kind, follows, suggestion } of edit.places ?? []) {
    const ownVersion = ownVersions.get(key(fine, kind));
    if (!follows || ownVersion === undefined) continue;
    const seen = suggestion === undefined ? edit.body : edit.body.suggestions;
    const name = suggestion ?? "seen";
    if (ownVersion > seen[name]) seen[name] = ownVersion;
  }
  const ownVersion = ownVersions.get(otherPlace(edit));
  if (ownVersion > edit.body.seen) edit.body.seen = ownVersion;
  return edit;
};

const photoPlace = (photo, kind) => `photo\u0000${photo}\u0000${kind}`;
const notePlace = (fine) => `note\u0000${fine}`;

/** The place of an edit of a photo or a note; undefined for other edits. */
function otherPlace({ path, body }) {
  if (path === "/api/photo") return photoPlace(body.photo, body.kind);
  return path === "/api/note" ? notePlace(body.fine) : undefined;
}

/** The cells that an edit decides. */
const placesOf = (edit) => edit.body.cells ?? edit.places ?? [];

function saved(edit, answer) {
  ownBatches.add(answer.batch);
  // If nobody else edited in between, there is nothing to load; otherwise `follow` loads it.
  if (answer.version - answer.edits === lastVersion) lastVersion = answer.version;
  const places = placesOf(edit);
  for (const cell of places) clearPending(cell, edit.body.edit);
  if (otherPlace(edit)) ownVersions.set(otherPlace(edit), answer.note_version ?? answer.version);
  for (const { photo, kind, version } of answer.photos ?? []) ownVersions.set(photoPlace(photo, kind), version);
  for (const { fine, version } of answer.notes ?? []) ownVersions.set(notePlace(fine), version);
  for (const cell of answer.cells ?? []) ownVersions.set(key(cell.fine, cell.kind), cell.version);
  // A later edit may still use the former name of the cell.
  if (places.length === 1 && answer.cells?.length === 1) ownVersions.set(key(places[0].fine, places[0].kind), answer.cells[0].version);
  saver.discardRefused((other) => samePlace(other, edit));
  putCells(answer.cells ?? []);
  loadProgress();
  changed("saved", { edit, answer, places: edit.path === "/api/decide" ? edit.body.cells : undefined });
}

function refused(edit, problem) {
  for (const cell of placesOf(edit)) clearPending(cell, edit.body.edit);
  const found = problem.body.conflicts ?? [];
  for (const conflict of found) {
    if (conflict.what === "photo") conflict.number ??= edit.body.photo;
    if (CONFLICT_PATHS.has(edit.path) && conflict.version > 0) keepConflict(conflict);
    if (conflict.what === "cell") ownVersions.delete(key(conflict.fine, conflict.kind));
  }
  // The cell shows the conflict of a decision; a dialog shows others. Edits with input of a person are kept until they are
  // resolved; for others, which can be repeated, a message is enough.
  if (!found.length && PERSONAL_PATHS.has(edit.path)) saver.keepRefused(edit, problem.message);
  else if (!found.length) say(`Not saved: ${problem.message}`, { fault: true });
  changed("refused", { edit, problem, conflicts: found });
}

/** Paths of edits whose conflicts stay until the person resolves them. */
const CONFLICT_PATHS = new Set(["/api/decide", "/api/photo", "/api/note"]);

/** Paths of edits with input of a person. */
const PERSONAL_PATHS = new Set(["/api/decide", "/api/resolve", "/api/photo", "/api/note"]);

/** Whether two edits change the same cell, photo label or note. */
function samePlace(one, other) {
  const names = (edit) => (otherPlace(edit) ? [otherPlace(edit)] : placesOf(edit).map(({ fine, kind }) => key(fine, kind)));
  const places = new Set(names(one));
  return names(other).some((name) => places.has(name));
}

function clearPending(cell, edit) {
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

/** Make the shown value the decision of this person, unless it is already. A conflict stays unresolved, as it may have
 * appeared just before the key was pressed. */
export function confirm(fine, kind) {
  const value = shownValue(fine, kind);
  const voted = cellOf(fine, kind).votes[person()] !== undefined;
  if (value !== null && !voted && !isPending(fine, kind) && !conflictOf(fine, kind)) decide([[fine, kind, value]]);
}

/** Whether an edit of a cell follows an unsaved edit of this page, and so builds on its result. */
const followsOwn = (place) => pending.has(place) || saver.waiting.some((edit) => edit.path === "/api/undo");

/** Accept a suggestion. One that is derived from the name of a class has no number, and its label may be new. */
export function accept({ number, fine, kind, value }) {
  if (number === null) return put("/api/accept", { named: [namedCell({ fine, kind, value })] }, { fine, kind }, value);
  put("/api/accept", { suggestions: { [number]: cellOf(fine, kind).version } }, { fine, kind, suggestion: number }, value);
}

/** The edit of a cell that accepts a suggestion derived from a name. */
export const namedCell = ({ fine, kind, value }) => ({ fine, kind, value, seen: cellOf(fine, kind).version, follows: followsOwn(key(fine, kind)), numbers: numbersOf(fine, kind, value) });

/** Settle a disagreement with a value. */
export function resolve(fine, kind, value) {
  put("/api/resolve", { fine, kind, value, seen: cellOf(fine, kind).version, numbers: numbersOf(fine, kind, value) }, { fine, kind }, value);
}

/** Send an action that sets one cell; the value is shown at once. */
function put(path, body, place, value) {
  const name = key(place.fine, place.kind);
  const places = [{ ...place, follows: followsOwn(name) }];
  conflicts.delete(name);
  pending.set(name, { value, edit: saver.add(path, { person: person(), ...body }, { places }) });
  changed("cells", { places });
}

/** Send another action of this person, saved like a decision. */
export function act(path, body) {
  const place = otherPlace({ path, body });
  if (place) forgetConflictAt(place);
  return saver.add(path, { person: person(), ...body });
}

/** Undo the last action of this person. It is queued with the edits, and the action is determined when it is sent. */
export const undo = () => act("/api/undo", {});

/** Send a request that is not queued, such as a preview. */
export const askServer = (path, body) => post(path, body);

// ---- edits of others -------------------------------------------------------------------------------------------------

const POLL_PAUSE = 1200;

/** Poll for edits of others. */
export async function follow() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 5 * POLL_PAUSE : POLL_PAUSE));
    const since = lastVersion;
    const found = await get("/api/changes", { since }).catch(() => null);
    if (!found || found.version <= since || since !== lastVersion) continue;
    lastVersion = found.version;
    putCells(found.cells);
    const edits = found.edits.filter((edit) => !ownBatches.has(edit.batch));
    if (!edits.length) continue;
    loadProgress();
    const names = edits.some((edit) => ["fine", "kind", "label", "graph"].includes(edit.target));
    changed("others", { edits, names: names || found.more, more: found.more });
  }
}
