// The API of `finegraph label`: JSON requests and responses. If the server needs a token, it is in a cookie.

import { request } from "/shared/http.js";

const PERSON = "finegraph.person";
const UNREACHABLE = { detail: "the server cannot be reached" };

/** The name of the person, asked once and kept in the browser. */
export const person = () => localStorage.getItem(PERSON);
export const setPerson = (name) => localStorage.setItem(PERSON, name);

let store = null;

/** Set the store of this page. Edits are sent with it, so that no other store accepts them. */
export const setStore = (identity) => (store = identity);

function ask(path, { timeout = 15000, read, ...options } = {}) {
  return request(path, { cache: "no-store", ...options, signal: AbortSignal.timeout(timeout) }, { read, unreachable: UNREACHABLE });
}

/** Send a GET request. Empty entries of `query` are left out; an array repeats its name. */
export function get(path, query = {}) {
  const all = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const given = all.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return ask(text ? `${path}?${text}` : path, { headers: { Accept: "application/json" } });
}

/** Send a POST request. */
export function post(path, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  if (store) headers["Finegraph-Store"] = store;
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), timeout: 60000 });
}

/** Download a file of the server and let the browser save it under a name. */
export async function download(path, name) {
  const blob = await ask(path, { timeout: 120000, read: (response) => response.blob() });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A random id of an edit. The server applies edits with the same id once. */
export function newEditId() {
  // `crypto.randomUUID` exists only on secure pages, and plain HTTP to another machine is not secure.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
