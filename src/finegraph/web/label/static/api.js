// Talking to the server: JSON in and out, faults as problem documents. A token, where one is needed, is in a cookie.

const PERSON = "finegraph.person";

/** What the server refused, or `status` 0 where it could not be reached. */
export class Problem extends Error {
  constructor(status, title, body = {}) {
    super(title);
    this.status = status;
    this.body = body;
  }
}

/** The name under which this person decides; asked once and kept in the browser. */
export const person = () => localStorage.getItem(PERSON);
export const setPerson = (name) => localStorage.setItem(PERSON, name);

let store = null;

/** The store that this page is of; what the page sends is for no other. */
export const setStore = (identity) => (store = identity);

async function ask(path, { patience = 15000, ...options } = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options, signal: AbortSignal.timeout(patience) });
  } catch {
    throw new Problem(0, "the server cannot be reached");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, body.detail ?? body.title ?? `the server answered ${answer.status}`, body);
}

/** Ask for something; `query` entries that are empty are left out, those with several values are named several times. */
export async function get(path, query = {}) {
  const all = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const given = all.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return (await ask(text ? `${path}?${text}` : path, { headers: { Accept: "application/json" } })).json();
}

/** Send something that changes the labels. */
export async function post(path, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  if (store) headers["Finegraph-Store"] = store;
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body), patience: 60000 })).json();
}

/** A file of the server, saved by the browser under its name. */
export async function download(path, name) {
  const blob = await (await ask(path, { patience: 120000 })).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A number that no other edit has: sending an edit again under its number cannot make it happen twice. */
export function newEditId() {
  // `crypto.randomUUID` exists only where the page is secure, which plain HTTP to another machine is not.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
