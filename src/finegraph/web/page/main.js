// The page: photos come, the server says what is on them, and every tap asks again with what is known of the one that is
// looked at. Photos stay in the browser; the server keeps nothing, so a photo's scores come back with each question. What
// is shown is always of the photo and of the model that are there: another model may take over at any moment.

import { Problem, again, explain, getModel, getSample, getSamples, predict, search } from "./api.js";
import { markEntry, showAlbum, showEntry } from "./album.js";
import { hideAnswer, showAnswer, showWaiting } from "./answer.js";
import { byId, el } from "./dom.js";
import { freePlaces, keepPlaces } from "./glance.js";
import { buildKinds, showKinds } from "./kinds.js";
import { Known } from "./known.js";
import { buildOrders, forgetOrders, limitTexts, showLimit, sortOf } from "./orders.js";
import { markSamples, showPhoto, showSamples, watchPhotos } from "./photo.js";
import { forgetQuestions, showQuestion } from "./question.js";
import { forgetTeaching, showTeach } from "./teach.js";
import { showFollowing, showNotFound, showSeeking, showSimilar } from "./similar.js";

const MAX_PHOTOS = 50;
const MAX_MODELS = 4; // so many are met in one question
const TAKEN_BACK = "Another model is served now, with other labels. What you said was taken back.";
const known = new Known(() => update());
let model = null;
let meeting = Promise.resolve();
let album = []; // the photos that came together: {file, plain, problem, answer}; plain is the answer without evidence
let current = null; // the one of them that is looked at
let shown = null; // its answer on the page; null where there is none yet
let aside = ""; // what is to be said beside the next answer
let asking = new AbortController(); // the answer with what is known
let seeking = new AbortController(); // the photos that are similar to the one that is looked at
let found = null; // what the similar photos on the page were asked for: the texts that they follow; null where there are none
let wanted = []; // what they were asked for last, whether they came or not
let leaving = new AbortController(); // the answers to all photos that came together
let fetching = new AbortController(); // a sample
let toLabel = []; // the samples that are to be labelled, in their order
const labelled = new Map(); // which of them are, and by which lesson

function note(...texts) {
  byId("notes").replaceChildren(...texts.filter(Boolean).map((text) => el("p", { className: "note", textContent: text })));
}

function fail(error) {
  if (error?.name === "AbortError") return;
  note(explain(error));
  byId("notes").scrollIntoView({ block: "nearest" }); // whoever tapped far below sees it too
}

function setBusy(busy) {
  document.body.classList.toggle("busy", busy);
  byId("result").setAttribute("aria-busy", String(busy));
}

const risk = () => Number(byId("risk").value);

function showModel(found) {
  const parts = (one) => JSON.stringify([one?.kinds, one?.numbers]);
  const same = parts(found) === parts(model);
  model = found;
  const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  byId("about").textContent = [model.name, count(model.fine, "label"), count(model.kinds.length, "kind")].join(" · ");
  if (same) return;
  takeBack();
  shown = null;
  buildKinds(model, known);
  buildOrders(model, seekAgain);
}

/** Meet the model that is served now; one call after the other, so that the last one counts. */
function meetModel() {
  meeting = meeting.catch(() => {}).then(async () => showModel(await getModel()));
  return meeting;
}

/** Forget what was told in the labels of a model that is gone. */
function takeBack() {
  if (!known.entries.length) return;
  known.clear(true);
  aside = TAKEN_BACK;
}

/** Look at photos that came together: at the first closely, at the others one after the other. */
async function look(files, sample = null) {
  fetching.abort();
  leaving.abort(); // what the photos before are still asked
  leaving = new AbortController();
  const entries = files.slice(0, MAX_PHOTOS).map((file) => ({ file, sample, plain: null, problem: null, answer: null }));
  const own = (album = entries);
  showAlbum(entries, (entry) => choose(entry));
  const tooMany = `The first ${MAX_PHOTOS} of ${files.length} photos are looked at.`;
  const first = choose(entries[0], files.length > MAX_PHOTOS ? tooMany : "");
  byId("drop").scrollIntoView({ block: "nearest" }); // a sample may have been tapped far below
  await first;
  for (const entry of entries) {
    if (own === album && !entry.problem) await answerOf(entry).catch(() => {}); // the list says which failed
  }
}

async function lookAtSample(sample) {
  fetching.abort();
  const { signal } = (fetching = new AbortController());
  try {
    const file = await getSample(sample, signal);
    signal.throwIfAborted();
    look([file], sample);
  } catch (error) {
    fail(error);
  }
}

/** The answer without evidence, asked for until there is one or the photo is found to be bad. */
function answerOf(entry) {
  if (entry.answer) return entry.answer;
  const busy = (seconds) => entry === current && note(`The server is busy; it is asked again in ${seconds} s.`);
  entry.risk = risk();
  entry.answer = predict(entry.file, entry.risk, leaving.signal, busy).then(
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
async function choose(entry, words = "") {
  seeking.abort();
  found = null;
  forgetOrders();
  current = entry;
  shown = null;
  forgetQuestions();
  forgetTeaching();
  freePlaces();
  aside = words;
  known.clear(true);
  note();
  showWaiting();
  showPhoto(entry.file);
  markEntry(album, entry);
  markSamples(entry.sample, (sample) => labelled.has(sample));
  document.body.classList.toggle("labelling", toLabel.includes(entry.sample));
  await ask(entry);
  if (entry === current) await seek([]);
}

/** Ask with what is known now, and show the answer; what was asked before is given up. */
async function ask(entry) {
  asking.abort();
  const own = (asking = new AbortController());
  setBusy(true);
  try {
    const prediction = await answerNow(entry, own.signal);
    own.signal.throwIfAborted();
    if (shown) keepPlaces(() => show(prediction, entry));
    else show(prediction, entry);
    note(aside);
    aside = "";
  } catch (error) {
    if (own !== asking) return;
    if (!shown) hideAnswer();
    fail(error);
  } finally {
    if (own === asking) setBusy(false);
  }
}

/** Put up all that is said of the photo. */
function show(prediction, entry) {
  showAnswer(prediction, known, entry.plain.in_index);
  showKinds(prediction, entry.plain);
  showQuestion(prediction, known);
  showTeach(model, entry, prediction, taught, nextToLabel(entry));
  shown = prediction;
  follow();
}

/** The answer with what is known now: from the scores, or from the photo where another model is served by now. */
async function answerNow(entry, signal) {
  for (let met = 1; met <= MAX_MODELS; met += 1) {
    await answerOf(entry);
    if (entry.plain.model !== model?.id) await meetModel();
    signal.throwIfAborted();
    if (entry.plain.model === model.id) {
      if (entry.risk === risk() && !known.entries.length) return entry.plain;
      try {
        return await again(entry.plain.scores, known, risk(), signal);
      } catch (error) {
        if (error.name === "unknown-name") {
          takeBack(); // the kinds are the same as before, but not all of their labels
          continue;
        }
        if (error.name !== "other-model") throw error;
      }
    }
    entry.answer = null; // its model is served no more
  }
  const title = "The model was replaced again and again";
  throw new Problem({ title, detail: "No answer is of the one that is served.", what_to_do: "Choose the photo again." }, 0);
}

/** Look for photos that are similar to the one that is looked at, and have certain labels where `where` names any. Taps
 * do not disturb it; another photo ends it. */
async function seek(where) {
  const entry = current;
  if (!entry.plain || !model?.index) return;
  seeking.abort();
  const { signal } = (seeking = new AbortController());
  [found, wanted] = [null, where];
  showSeeking();
  try {
    const { hits, limits } = await search(entry.file, [...where, ...limitTexts()], sortOf(), signal);
    signal.throwIfAborted();
    found = where;
    showSimilar(hits, where.length > 0 || limitTexts().length > 0);
    showLimit(limits);
    follow();
  } catch (error) {
    if (error.name !== "AbortError") showNotFound(explain(error), () => seek(where));
  }
}

/** Look for them in another order, or with another limit. */
function seekAgain() {
  if (current) seek(wanted);
}

/** Let the similar photos follow what is known now if they were asked to, else say that they do not. */
function follow() {
  if (found === null) return;
  const told = known.texts;
  if (found.length && found.join() !== told.join()) seek(told);
  else showFollowing(found.length > 0, told.length > 0, () => seek(found.length ? [] : told));
}

/** The photo to label after one of them, if there is one: the next in order, then those that were skipped. */
function nextToLabel(entry) {
  const place = toLabel.indexOf(entry.sample);
  if (place < 0) return null;
  const left = [...toLabel.slice(place + 1), ...toLabel.slice(0, place)].filter((sample) => !labelled.has(sample));
  return left.length ? { left: left.length, go: () => lookAtSample(left[0]) } : null;
}

/** The model was taught, or a lesson was taken back: all answers are asked for again, this one first. */
function taught(told) {
  if (told?.lesson.photos.length && current?.sample) {
    if (told.lesson.forgotten) labelled.delete(current.sample);
    else labelled.set(current.sample, told.lesson.id);
    markSamples(current.sample, (sample) => labelled.has(sample));
  }
  for (const entry of album) entry.answer = null;
  if (current) ask(current);
}

/** Ask again with what is known now. */
function update() {
  if (!current) return;
  if (shown) keepPlaces(() => show(shown, current)); // what was tapped shows before the answer comes
  ask(current);
}

function meetSamples(samples) {
  toLabel = samples.filter((sample) => sample.to_label);
  showSamples(samples, lookAtSample);
}

async function start() {
  for (const event of ["error", "unhandledrejection"]) {
    window.addEventListener(event, ({ error, reason, message }) => fail(error ?? reason ?? message));
  }
  watchPhotos(look);
  byId("risk").addEventListener("change", update);
  try {
    await Promise.all([meetModel(), getSamples().then(meetSamples)]);
    document.body.dataset.ready = "true";
    if (toLabel.length && !current) lookAtSample(toLabel[0]);
  } catch (error) {
    fail(error);
  }
}

start();
