// Talking to the server. Errors are problems with a title, a detail and what to do; a busy server is asked again.

const TRIES = 4;

export class Problem extends Error {
  constructor(body, status) {
    super(body.detail);
    this.name = (body.type ?? "").split(":").pop();
    this.title = body.title ?? `Status ${status}`;
    this.detail = body.detail ?? "";
    this.whatToDo = body.what_to_do ?? "";
  }
}

async function ask(path, options, busy) {
  for (let tried = 1; ; tried += 1) {
    let response;
    try {
      response = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const gone = { type: "offline", title: "The server does not answer", detail: "It may have been stopped." };
      throw new Problem({ ...gone, what_to_do: "Start it again, then try once more." }, 0);
    }
    if (response.ok) return response.json();
    if ((response.status === 503 || response.status === 429) && tried < TRIES) {
      const seconds = Number(response.headers.get("Retry-After") ?? 1);
      busy?.(seconds);
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      continue;
    }
    throw new Problem(await response.json().catch(() => ({})), response.status);
  }
}

function form(photo, fields) {
  const body = new FormData();
  body.append("photo", photo, photo.name || "photo");
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  return body;
}

export const getModel = () => ask("/v1/model");
export const getSamples = () => ask("/v1/samples");

export function findLabels(kind, search, signal) {
  return ask(`/v1/labels?${new URLSearchParams({ kind, search, limit: 40 })}`, { signal });
}

/** What is on a photo, with its scores. */
export async function predict(photo, risk, signal, busy) {
  const body = form(photo, { scores: "true", risk, top: 6 });
  const answer = await ask("/v1/predict", { method: "POST", body, signal }, busy);
  return answer.photos[0];
}

/** The same photo with what is known, from its scores. */
export async function again(scores, given, risk, signal) {
  const body = JSON.stringify({ scores, given, risk, top: 6 });
  const headers = { "Content-Type": "application/json" };
  return (await ask("/v1/given", { method: "POST", body, headers, signal })).prediction;
}

export async function search(photo, signal) {
  const answer = await ask("/v1/search", { method: "POST", body: form(photo, { count: 12 }), signal });
  return answer.photos[0].hits;
}
