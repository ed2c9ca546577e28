// Talking to the server. Errors are problems with a title, a detail and what to do; a busy server is asked again.

const TRIES = 4;
const TOP = 100; // as many labels as the server lists: what stands on the page keeps its place and needs its probability
const QUESTIONS = 6; // some of them may be skipped
const GONE = {
  type: "offline",
  title: "The server does not answer",
  detail: "It may have been stopped.",
  what_to_do: "Start it again, then try once more.",
};

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail);
    this.name = (body.type ?? "").split(":").pop();
    this.title = body.title ?? `Status ${status}`;
    this.detail = body.detail ?? "";
    this.whatToDo = body.what_to_do ?? "";
  }
}

/** An error in sentences. One that nobody foresaw is a fault of the page, and its place goes to the console. */
export function explain(error) {
  const sentences = (...texts) => texts.filter(Boolean).map((text) => text.replace(/[.]?$/, ".")).join(" ");
  if (error instanceof Problem) return sentences(error.title, error.detail, error.whatToDo);
  console.error(error);
  return sentences("The page has a fault", String(error?.message ?? error), "Load the page again, then try once more");
}

/** The answer of the server, parsed by `read`; `busy(seconds)` is called before each retry. */
async function ask(path, options, busy, read = (response) => response.json()) {
  for (let tried = 1; ; tried += 1) {
    let response;
    try {
      response = await fetch(path, options);
      if (response.ok) return await read(response);
    } catch (error) {
      if (error instanceof TypeError) throw new Problem(GONE, 0); // what browsers throw where no answer came, or no whole one
      throw error;
    }
    const problem = new Problem(await response.json().catch(() => ({})), response.status);
    // An index that cannot be opened stays so for long; the others pass.
    const passes = (response.status === 503 || response.status === 429) && problem.name !== "index-changed";
    if (!passes || tried === TRIES) throw problem;
    const seconds = Number(response.headers.get("Retry-After")) || 1;
    busy?.(seconds);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
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

/** A photo to try, as a file. */
export async function getSample(sample, signal) {
  const content = await ask(sample.url, { signal }, null, (response) => response.blob());
  return new File([content], sample.name);
}

export function findLabels(kind, search, signal) {
  return ask(`/v1/labels?${new URLSearchParams({ kind, search, limit: 40 })}`, { signal });
}

/** What is on a photo, with its scores and the id of the model that says so. */
export async function predict(photo, risk, signal, busy) {
  const body = form(photo, { scores: "true", risk, top: TOP, questions: QUESTIONS });
  const answer = await ask("/v1/predict", { method: "POST", body, signal }, busy);
  return { ...answer.photos[0], model: answer.model };
}

/** The same photo with what is known, from its scores. */
export async function again(scores, given, risk, signal) {
  const body = JSON.stringify({ scores, given, risk, top: TOP, questions: QUESTIONS });
  const headers = { "Content-Type": "application/json" };
  return (await ask("/v1/given", { method: "POST", body, headers, signal })).prediction;
}

/** Teach what a photo shows, or a new label without one; the same `id` sent again counts once. */
export function teach(photo, fields) {
  return ask("/v1/lessons", { method: "POST", body: form(photo, fields) });
}

export function forget(lesson, person) {
  return ask(`/v1/lessons/${encodeURIComponent(lesson)}?${new URLSearchParams({ person })}`, { method: "DELETE" });
}

export const getLessons = (limit) => ask(`/v1/lessons?${new URLSearchParams({ limit })}`);

/** The photos of the index that are most similar, with the limits that were the photo's own; only those with certain
 * labels where `where` names any, and in the order of `sort` where it names one. */
export async function search(photo, where, sort, signal) {
  const fields = { count: 12, where, ...(sort ? { sort } : {}) };
  const answer = await ask("/v1/search", { method: "POST", body: form(photo, fields), signal });
  return answer.photos[0];
}
