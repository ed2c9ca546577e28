// The page of `finegraph serve`. The person chooses photos, the server predicts their labels, and every tap on a label is
// evidence for a new prediction. Photos stay in the browser and the server stores nothing, so each request with evidence
// sends the scores of the photo back. The served model may be replaced at any time; the page never mixes answers of two models.

import { byId, el } from "/shared/elements.js";
import { Problem } from "/shared/http.js";
import { markEntry, showAlbum, showEntry } from "./album.js";
import { hideAnswer, showAnswer, showWaiting } from "./answer.js";
import { Evidence } from "./evidence.js";
import { preserveScroll, resetHeights } from "./glance.js";
import { buildKinds, showKinds } from "./kinds.js";
import { buildOrders, limitTexts, resetOrders, showLimit, sortOf } from "./orders.js";
import { markSamples, showPhoto, showSamples, watchPhotos } from "./photo.js";
import { resetQuestions, showQuestion } from "./question.js";
import { explain, getModel, getSample, getSamples, predict, predictGiven, search } from "./serve_api.js";
import { showFilter, showNotFound, showSearching, showSimilar } from "./similar.js";
import { resetTeaching, showTeach } from "./teach.js";

const MAX_PHOTOS = 50;
const MAX_MODEL_CHANGES = 4; // during one request
const MODEL_CHANGED = "Another model is served now, with other labels. Your entries were removed.";
const evidence = new Evidence(() => update());
let model = null;
let modelRequest = Promise.resolve();
let album = []; // the photos that were chosen together: {file, plain, problem, answer}; plain is the answer without evidence
let current = null; // the selected photo
let shown = null; // the answer on the page; null if there is none yet
let pendingNote = ""; // shown with the next answer
let answerRequest = new AbortController(); // for the answer with evidence
let similarRequest = new AbortController(); // for the photos similar to the selected one
let shownFilter = null; // the evidence that the similar photos on the page agree with; null if none are shown
let requestedFilter = []; // the filter of the last search, whether it succeeded or not
let albumRequest = new AbortController(); // for the answers to all photos of the album
let sampleRequest = new AbortController(); // for a sample photo
let toLabel = []; // the samples to label, in order
const labelled = new Map(); // sample -> id of the lesson that labelled it

function note(...texts) {
  byId("notes").replaceChildren(...texts.filter(Boolean).map((text) => el("p", { className: "note", textContent: text })));
}

function fail(error) {
  if (error?.name === "AbortError") return;
  note(explain(error));
  byId("notes").scrollIntoView({ block: "nearest" }); // the person may have tapped far below
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
  discardEvidence();
  shown = null;
  buildKinds(model, evidence);
  buildOrders(model, repeatSearch);
}

/** Load the description of the served model. Calls are queued, so that the last one wins. */
function refreshModel() {
  modelRequest = modelRequest.catch(() => {}).then(async () => showModel(await getModel()));
  return modelRequest;
}

/** Remove evidence that uses labels of a former model. */
function discardEvidence() {
  if (!evidence.entries.length) return;
  evidence.clear(true);
  pendingNote = MODEL_CHANGED;
}

/** Open photos that were chosen together: select the first one and predict the others one after the other. */
async function openPhotos(files, sample = null) {
  sampleRequest.abort();
  albumRequest.abort(); // requests for the former photos
  albumRequest = new AbortController();
  const entries = files.slice(0, MAX_PHOTOS).map((file) => ({ file, sample, plain: null, problem: null, answer: null }));
  const own = (album = entries);
  showAlbum(entries, (entry) => select(entry));
  const tooMany = `The first ${MAX_PHOTOS} of ${files.length} photos are used.`;
  const first = select(entries[0], files.length > MAX_PHOTOS ? tooMany : "");
  byId("drop").scrollIntoView({ block: "nearest" }); // a sample may have been tapped far below
  await first;
  for (const entry of entries) {
    if (own === album && !entry.problem) await answerOf(entry).catch(() => {}); // the album shows which ones failed
  }
}

async function openSample(sample) {
  sampleRequest.abort();
  const { signal } = (sampleRequest = new AbortController());
  try {
    const file = await getSample(sample, signal);
    signal.throwIfAborted();
    openPhotos([file], sample);
  } catch (error) {
    fail(error);
  }
}

/** The answer without evidence. It is requested once, and again after an error unless the photo itself is bad. */
function answerOf(entry) {
  if (entry.answer) return entry.answer;
  const onBusy = (seconds) => entry === current && note(`The server is busy; retrying in ${seconds} s.`);
  entry.risk = risk();
  entry.answer = predict(entry.file, entry.risk, albumRequest.signal, onBusy).then(
    (plain) => {
      entry.plain = plain;
      entry.problem = null;
      showEntry(entry);
    },
    (error) => {
      entry.problem = error;
      if (error.name !== "photo") entry.answer = null; // the next tap tries again
      showEntry(entry);
      throw error;
    },
  );
  return entry.answer;
}

/** Select one of the photos and show its answer. */
async function select(entry, words = "") {
  similarRequest.abort();
  shownFilter = null;
  resetOrders();
  current = entry;
  shown = null;
  resetQuestions();
  resetTeaching();
  resetHeights();
  pendingNote = words;
  evidence.clear(true);
  note();
  showWaiting();
  showPhoto(entry.file);
  markEntry(album, entry);
  markSamples(entry.sample, (sample) => labelled.has(sample));
  document.body.classList.toggle("labelling", toLabel.includes(entry.sample));
  await ask(entry);
  if (entry === current) await searchSimilar([]);
}

/** Request the answer with the current evidence and show it; an earlier request is cancelled. */
async function ask(entry) {
  answerRequest.abort();
  const own = (answerRequest = new AbortController());
  setBusy(true);
  try {
    const prediction = await answerNow(entry, own.signal);
    own.signal.throwIfAborted();
    if (shown) preserveScroll(() => show(prediction, entry));
    else show(prediction, entry);
    note(pendingNote);
    pendingNote = "";
  } catch (error) {
    if (own !== answerRequest) return;
    if (!shown) hideAnswer();
    fail(error);
  } finally {
    if (own === answerRequest) setBusy(false);
  }
}

/** Show an answer in all sections of the page. */
function show(prediction, entry) {
  showAnswer(prediction, evidence, entry.plain.in_index);
  showKinds(prediction, entry.plain);
  showQuestion(prediction, evidence);
  showTeach(model, entry, prediction, onTaught, nextToLabel(entry));
  shown = prediction;
  syncSimilar();
}

/** The answer with the current evidence: from the scores, or from the photo if the model was replaced. */
async function answerNow(entry, signal) {
  for (let tries = 1; tries <= MAX_MODEL_CHANGES; tries += 1) {
    await answerOf(entry);
    if (entry.plain.model !== model?.id) await refreshModel();
    signal.throwIfAborted();
    if (entry.plain.model === model.id) {
      if (entry.risk === risk() && !evidence.entries.length) return entry.plain;
      try {
        return await predictGiven(entry.plain.scores, evidence, risk(), signal);
      } catch (error) {
        if (error.name === "unknown-name") {
          discardEvidence(); // the new model has the same kinds, but not all of their labels
          continue;
        }
        if (error.name !== "other-model") throw error;
      }
    }
    entry.answer = null; // it is of a former model
  }
  const title = "The model was replaced repeatedly";
  throw new Problem(0, { title, detail: "No answer matches the current model.", what_to_do: "Choose the photo again." });
}

/** Search photos similar to the selected one, filtered by the labels in `where`. Only selecting another photo or another
 * search cancels it. */
async function searchSimilar(where) {
  const entry = current;
  if (!entry.plain || !model?.index) return;
  similarRequest.abort();
  const { signal } = (similarRequest = new AbortController());
  [shownFilter, requestedFilter] = [null, where];
  showSearching();
  try {
    const { hits, limits } = await search(entry.file, [...where, ...limitTexts()], sortOf(), signal);
    signal.throwIfAborted();
    shownFilter = where;
    showSimilar(hits, where.length > 0 || limitTexts().length > 0);
    showLimit(limits);
    syncSimilar();
  } catch (error) {
    if (error.name !== "AbortError") showNotFound(explain(error), () => searchSimilar(where));
  }
}

/** Search again after the order or the limit has changed. */
function repeatSearch() {
  if (current) searchSimilar(requestedFilter);
}

/** Search again if the similar photos are filtered by evidence that has changed; otherwise show whether they are filtered. */
function syncSimilar() {
  if (shownFilter === null) return;
  const { texts } = evidence;
  if (shownFilter.length && shownFilter.join() !== texts.join()) searchSimilar(texts);
  else showFilter(shownFilter.length > 0, texts.length > 0, () => searchSimilar(shownFilter.length ? [] : texts));
}

/** The next photo to label: in order, then those that were skipped; null if all are labelled. */
function nextToLabel(entry) {
  const place = toLabel.indexOf(entry.sample);
  if (place < 0) return null;
  const left = [...toLabel.slice(place + 1), ...toLabel.slice(0, place)].filter((sample) => !labelled.has(sample));
  return left.length ? { left: left.length, go: () => openSample(left[0]) } : null;
}

/** After a lesson was added or removed: request all answers again, that of the selected photo first. */
function onTaught(result) {
  if (result?.lesson.photos.length && current?.sample) {
    if (result.lesson.forgotten) labelled.delete(current.sample);
    else labelled.set(current.sample, result.lesson.id);
    markSamples(current.sample, (sample) => labelled.has(sample));
  }
  for (const entry of album) entry.answer = null;
  if (current) ask(current);
}

/** Request the answer again, with the current evidence. */
function update() {
  if (!current) return;
  if (shown) preserveScroll(() => show(shown, current)); // shows the tap before the answer comes
  ask(current);
}

function loadSamples(samples) {
  toLabel = samples.filter((sample) => sample.to_label);
  showSamples(samples, openSample);
}

async function start() {
  for (const event of ["error", "unhandledrejection"]) {
    window.addEventListener(event, ({ error, reason, message }) => fail(error ?? reason ?? message));
  }
  watchPhotos(openPhotos);
  byId("risk").addEventListener("change", update);
  try {
    await Promise.all([refreshModel(), getSamples().then(loadSamples)]);
    document.body.dataset.ready = "true";
    if (toLabel.length && !current) openSample(toLabel[0]);
  } catch (error) {
    fail(error);
  }
}

start();
