// What the page knows: the kinds, the cells that were loaded, and what was decided here but is not saved yet.
//
// A cell of the server is replaced only by a newer one. What a person chose is shown at once and put back if the server
// refuses it. `seen` is the version that the person was looking at when deciding; for a cell that this page has just
// changed itself, it is the version that this change made.

import { get, person, post, setStore } from "./api.js";
import { say } from "./dialogs.js";
import { Saver } from "./saving.js";

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
const pending = new Map();
const own = new Map();
const conflicts = new Map();
const listeners = new Set();
const ownBatches = new Set();
let followed = 0;

/** Call a function whenever something that is shown may have changed. `what` is "cells", "saved", "refused", "others",
 * "names", "progress", "save", "ready" or "lost" (what keys wait for did not come); where `detail.places` is given, only these cells have changed. */
export const onChange = (listener) => listeners.add(listener);
export const changed = (what, detail) => listeners.forEach((listener) => listener(what, detail));

/** Load what every view needs. */
export async function loadStart() {
  const start = await get("/api/start");
  if (model.store !== null && model.store !== start.store) return location.reload(); // another store is served by now
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
    if ((cells.get(place)?.version ?? -1) <= cell.version) cells.set(place, cell);
  }
}

/** A cell as the server has it. */
export const cellOf = (fine, kind) =>
  cells.get(key(fine, kind)) ?? { fine, kind, value: null, version: 0, votes: {}, disagreement: false };

/** The value to show: what was chosen here, or what the server has. */
export function shownValue(fine, kind) {
  const chosen = pending.get(key(fine, kind));
  return chosen ? chosen.value : cellOf(fine, kind).value;
}

export const isPending = (fine, kind) => pending.has(key(fine, kind));
export const conflictOf = (fine, kind) => conflicts.get(key(fine, kind));
export const forgetConflict = (fine, kind) => conflicts.delete(key(fine, kind));

/** Forget all cells, after names have changed. Conflicts stay: nobody has chosen between their values yet. */
export const forgetCells = () => cells.clear();

// ---- saving ----------------------------------------------------------------------------------------------------------

export const saver = new Saver(
  (state) => changed("save", state),
  (edit, answer) => saved(edit, answer),
  (edit, problem) => refused(edit, problem),
);
saver.prepare = async (edit) => {
  if (edit.path === "/api/undo" && edit.body.number === undefined) {
    edit.body.batch ??= (await get("/api/undoable", { person: edit.body.person })).batch;
    if (edit.body.batch === null) return say("You have nothing to undo.");
  }
  for (const cell of edit.body.cells ?? []) {
    const mine = own.get(key(cell.fine, cell.kind));
    if (cell.follows && mine > cell.seen) cell.seen = mine;
    delete cell.follows;
  }
  const mine = own.get(otherPlace(edit));
  if (mine > edit.body.seen) edit.body.seen = mine;
  return edit;
};

/** What an edit of a photo or a note changes; other edits have no such place. */
function otherPlace({ path, body }) {
  if (path === "/api/photo") return `photo\u0000${body.photo}\u0000${body.kind}`;
  return path === "/api/note" ? `note\u0000${body.fine}` : undefined;
}

function saved(edit, answer) {
  ownBatches.add(answer.batch);
  // Nobody edited in between: there is nothing to ask for. Otherwise `follow` finds out what it was.
  if (answer.version - answer.edits === followed) followed = answer.version;
  for (const cell of edit.body.cells ?? []) settle(cell, edit.body.edit);
  if (otherPlace(edit)) own.set(otherPlace(edit), answer.note_version ?? answer.version);
  for (const cell of answer.cells ?? []) own.set(key(cell.fine, cell.kind), cell.version);
  putCells(answer.cells ?? []);
  loadProgress();
  changed("saved", { edit, answer, places: edit.path === "/api/decide" ? edit.body.cells : undefined });
}

function refused(edit, problem) {
  for (const cell of edit.body.cells ?? []) settle(cell, edit.body.edit);
  const found = problem.body.conflicts ?? [];
  for (const conflict of found) {
    if (conflict.what !== "cell") continue;
    if (edit.path === "/api/decide") conflicts.set(key(conflict.fine, conflict.kind), conflict);
    own.delete(key(conflict.fine, conflict.kind));
  }
  // A conflict of a decision is shown at its cell, others in a window; what nobody can choose is only told.
  if (!found.length) say(`Not saved: ${problem.message}`, { fault: true });
  changed("refused", { edit, problem, conflicts: found });
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
    const follows = pending.has(place) || saver.waiting.some((edit) => edit.path === "/api/undo");
    body.cells.push({ fine, kind, value, seen: cellOf(fine, kind).version, follows });
    pending.set(place, { value });
    conflicts.delete(place);
  }
  const edit = saver.add("/api/decide", body);
  for (const [fine, kind] of changes) pending.get(key(fine, kind)).edit = edit;
  changed("cells", { places: body.cells });
}

/** Another action of this person, saved like a decision. */
export const act = (path, body) => saver.add(path, { person: person(), ...body });

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
