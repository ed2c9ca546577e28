// The page: photos come, the server says what is on them, and every tap asks again with what is known of the one that is
// looked at. Photos stay in the browser; the server keeps nothing, so a photo's scores come back with each question.

import { Problem, again, getModel, getSamples, predict, search } from "./api.js";
import { markEntry, showAlbum, showEntry } from "./album.js";
import { hideAnswer, showAnswer, showSimilar } from "./answer.js";
import { byId, el } from "./dom.js";
import { buildKinds, showKinds } from "./kinds.js";
import { Known } from "./known.js";
import { showPhoto, showSamples, watchPhotos } from "./photo.js";

const MOST_PHOTOS = 50;
const known = new Known(() => update());
let model = null;
let album = []; // the photos that came together: {file, plain, problem, answer}; plain is the answer without evidence
let current = null; // the one of them that is looked at
let shown = null;
let asking = null;
let leaving = new AbortController();

function note(...texts) {
  byId("notes").replaceChildren(...texts.filter(Boolean).map((text) => el("p", { className: "note", textContent: text })));
}

function fail(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Problem)) throw error;
  note([error.title, error.detail, error.whatToDo].filter(Boolean).map((text) => text.replace(/[.]?$/, ".")).join(" "));
}

/** Do something that asks the server; what was asked before is given up. */
async function quietly(work) {
  asking?.abort();
  const own = (asking = new AbortController());
  document.body.classList.add("busy");
  try {
    await work(own.signal);
  } catch (error) {
    if (own === asking) fail(error);
  } finally {
    if (own === asking) document.body.classList.remove("busy");
  }
}

const risk = () => Number(byId("risk").value);

function show(prediction) {
  shown = prediction;
  showAnswer(prediction);
  showKinds(prediction, current.plain);
}

/** Look at photos that came together: at the first closely, at the others one after the other. */
async function look(files) {
  leaving.abort(); // what the photos before are still asked
  leaving = new AbortController();
  const entries = files.slice(0, MOST_PHOTOS).map((file) => ({ file, plain: null, problem: null, answer: null }));
  const own = (album = entries);
  showAlbum(entries, choose);
  await choose(entries[0]);
  if (files.length > MOST_PHOTOS) note(`The first ${MOST_PHOTOS} of ${files.length} photos are looked at.`);
  for (const entry of entries) {
    if (own === album && !entry.problem) await answerOf(entry).catch(() => {}); // the list says which failed
  }
}

/** The answer without evidence, asked for until there is one or the photo is found to be bad. */
function answerOf(entry) {
  const busy = (seconds) => entry === current && note(`The server is busy; it is asked again in ${seconds} s.`);
  entry.risk ??= risk();
  entry.answer ??= predict(entry.file, entry.risk, leaving.signal, busy).then(
    (plain) => {
      entry.plain = plain;
      entry.problem = null;
      showEntry(entry);
    },
    (error) => {
      entry.problem = error;
      if (error.name !== "photo") entry.answer = null; // a tap asks again: what failed may be over
      showEntry(entry);
      throw error;
    },
  );
  return entry.answer;
}

/** Look at one of the photos closely. */
function choose(entry) {
  current = entry;
  known.clear(true);
  note();
  byId("similar").hidden = true;
  showPhoto(entry.file);
  markEntry(album, entry);
  return quietly(async (signal) => {
    try {
      await answerOf(entry);
    } catch (error) {
      if (entry === current && error.name !== "AbortError") hideAnswer(); // it would be that of the photo before
      throw error;
    }
    signal.throwIfAborted();
    note();
    show(entry.risk === risk() ? entry.plain : await answerNow(entry, signal));
    if (model.index > 0) showSimilar(await search(entry.file, signal));
  });
}

/** The answer with what is known now: from the scores, or from the photo where another model is served by now. */
async function answerNow(entry, signal) {
  const now = risk();
  try {
    return await again(entry.plain.scores, known, now, signal);
  } catch (error) {
    if (error.name !== "other-model") throw error;
    entry.plain = await predict(entry.file, now, signal);
    entry.risk = now;
    showEntry(entry);
    return again(entry.plain.scores, known, now, signal);
  }
}

/** Ask again with what is known now. */
function update() {
  const entry = current;
  if (!entry?.plain) return undefined;
  if (shown) showKinds(shown, entry.plain); // what was tapped shows before the answer comes
  return quietly(async (signal) => {
    show(await answerNow(entry, signal));
    note();
  });
}

async function start() {
  watchPhotos(look);
  byId("risk").addEventListener("change", update);
  try {
    model = await getModel();
    const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
    byId("about").textContent = [model.name, count(model.fine, "label"), count(model.kinds.length, "kind")].join(" · ");
    buildKinds(model, known);
    showSamples(await getSamples(), look);
    document.body.dataset.ready = "true";
  } catch (error) {
    fail(error);
  }
}

start();
