// The API of `finegraph serve`. A request to a busy server is repeated.

import { Problem, request } from "/shared/http.js";

const MAX_TRIES = 4;
const TOP = 100; // the maximum of the server: the page keeps labels in place and needs their probabilities
const QUESTIONS = 6; // more than one, as the person may skip some

/** An error as sentences. An unexpected one is a bug of the page and is also logged to the console. */
export function explain(error) {
  const sentences = (...texts) => texts.filter(Boolean).map((text) => text.replace(/[.]?$/, ".")).join(" ");
  if (error instanceof Problem) return sentences(error.title, error.detail, error.whatToDo);
  console.error(error);
  return sentences("Something went wrong on this page", String(error?.message ?? error), "Load the page again, then try once more");
}

/** Send a request and retry while the server is busy; `onBusy(seconds)` is called before each retry. */
async function ask(path, options, onBusy, more) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await request(path, options, more);
    } catch (error) {
      // An index that cannot be opened stays so for long; other 503 and 429 responses are temporary.
      const isTemporary = [429, 503].includes(error.status) && error.name !== "index-changed";
      if (!isTemporary || tries === MAX_TRIES) throw error;
      const seconds = error.retryAfter ?? 1;
      onBusy?.(seconds);
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    }
  }
}

function form(photo, fields) {
  const body = new FormData();
  if (photo) body.append("photo", photo, photo.name || "photo");
  for (const [name, values] of Object.entries(fields)) {
    for (const value of [values].flat()) body.append(name, value);
  }
  return body;
}

export const getModel = () => ask("/v1/model");
export const getSamples = () => ask("/v1/samples");

/** Download a sample photo. */
export async function getSample(sample, signal) {
  const content = await ask(sample.url, { signal }, null, { read: (response) => response.blob() });
  return new File([content], sample.name);
}

export function findLabels(kind, search, signal) {
  return ask(`/v1/labels?${new URLSearchParams({ kind, search, limit: 40 })}`, { signal });
}

/** Predict the labels of a photo; the result has its scores and the id of the model. */
export async function predict(photo, risk, signal, onBusy) {
  const body = form(photo, { scores: "true", risk, top: TOP, questions: QUESTIONS });
  const answer = await ask("/v1/predict", { method: "POST", body, signal }, onBusy);
  return { ...answer.photos[0], model: answer.model };
}

/** Predict the labels of the same photo given evidence, from its scores. */
export async function predictGiven(scores, given, risk, signal) {
  const body = JSON.stringify({ scores, given, risk, top: TOP, questions: QUESTIONS });
  const headers = { "Content-Type": "application/json" };
  return (await ask("/v1/given", { method: "POST", body, headers, signal })).prediction;
}

/** Teach the label of a photo, or a new label without one; a lesson that is sent twice with the same `id` counts once. */
export function teach(photo, fields) {
  return ask("/v1/lessons", { method: "POST", body: form(photo, fields) });
}

export function deleteLesson(lesson, person) {
  return ask(`/v1/lessons/${encodeURIComponent(lesson)}?${new URLSearchParams({ person })}`, { method: "DELETE" });
}

export const getLessons = (limit) => ask(`/v1/lessons?${new URLSearchParams({ limit })}`);

/** Find similar photos in the index. `where` filters them by labels and limits, `sort` orders them; the result also has
 * the limits that the photo itself sets. */
export async function search(photo, where, sort, signal) {
  const fields = { count: 12, where, ...(sort ? { sort } : {}) };
  const answer = await ask("/v1/search", { method: "POST", body: form(photo, fields), signal });
  return answer.photos[0];
}
