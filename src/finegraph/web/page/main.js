// The page: a photo comes, the server says what is on it, and every tap asks again with what is known. The photo stays
// in the browser; the server keeps nothing, so the photo's scores come back with each question.

import { Problem, again, getModel, getSamples, predict, search } from "./api.js";
import { hideAnswer, showAnswer, showSimilar } from "./answer.js";
import { byId, el } from "./dom.js";
import { buildKinds, showKinds } from "./kinds.js";
import { Known } from "./known.js";
import { showPhoto, showSamples, watchPhotos } from "./photo.js";

const known = new Known(() => update());
let model = null;
let photo = null;
let plain = null; // the answer without evidence, which holds the scores
let shown = null;
let asking = null;

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
  showKinds(prediction, plain);
}

function look(file) {
  photo = file;
  plain = null;
  known.clear(true);
  note();
  byId("similar").hidden = true;
  showPhoto(file);
  return quietly(async (signal) => {
    try {
      plain = await predict(file, risk(), signal, (seconds) => note(`The server is busy; it is asked again in ${seconds} s.`));
    } catch (error) {
      if (error.name !== "AbortError") hideAnswer(); // it would be that of the photo before
      throw error;
    }
    note();
    show(plain);
    if (model.index > 0) showSimilar(await search(file, signal));
  });
}

/** Ask again with what is known now. */
function update() {
  if (!plain) return undefined;
  if (shown) showKinds(shown, plain); // what was tapped shows before the answer comes
  return quietly(async (signal) => {
    try {
      show(await again(plain.scores, known, risk(), signal));
    } catch (error) {
      if (error.name !== "other-model") throw error;
      plain = await predict(photo, risk(), signal); // the model was replaced meanwhile
      show(await again(plain.scores, known, risk(), signal));
    }
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
