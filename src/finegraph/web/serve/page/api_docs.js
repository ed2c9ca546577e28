// The API as a page: every route in /openapi.json with a form to try it and the same request for curl and Python. All texts
// on routes come from the description, so the page always agrees with it.

import { byId, el } from "/shared/elements.js";
import { makeForm } from "./api_docs_form.js";
import { curl, python } from "./api_docs_snippets.js";
import { explain } from "./serve_api.js";

const MAX_LETTERS = 20000; // of a response that is shown

/** A text as nodes; `backticks` mark code. */
function prose(text) {
  return text.split("`").map((part, number) => (number % 2 ? el("code", { textContent: part }) : part));
}

/** All operations of a description, in order. */
function operationsOf(spec) {
  return Object.entries(spec.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => ({ ...about, path, method: method.toUpperCase(), id: `${method}${path}`.replace(/[^a-z0-9]+/gi, "-") })),
  );
}

function showRoutes(operations) {
  const groups = Map.groupBy ? Map.groupBy(operations, ({ tags }) => tags[0]) : grouped(operations);
  byId("routes").replaceChildren(
    ...[...groups].flatMap(([tag, own]) => [
      el("h2", { textContent: tag }),
      el("ul", {}, ...own.map(({ id, method, path }) => el("li", {}, el("a", { href: `#${id}` }, badge(method), path)))),
    ]),
  );
}

function grouped(operations) {
  const found = new Map();
  for (const one of operations) found.set(one.tags[0], [...(found.get(one.tags[0]) ?? []), one]);
  return found;
}

const badge = (method) => el("span", { className: `method ${method.toLowerCase()}`, textContent: method });

/** The content type of a successful response, or null. */
const successType = (operation) => Object.keys(operation.responses[200]?.content ?? {})[0] ?? null;

function section(operation, spec) {
  const form = makeForm(operation, spec, () => showSnippets());
  const code = { curl: el("code"), python: el("code") };
  const result = el("div", { className: "answer", "aria-live": "polite", hidden: true });
  const send = el("button", { type: "submit", className: "primary", textContent: "Send" });

  function showSnippets() {
    const request = { ...form.request(), method: operation.method, type: successType(operation), token: Boolean(spec.security) };
    code.curl.textContent = curl(request);
    code.python.textContent = python(request);
  }

  form.element.append(el("p", { className: "send" }, send));
  form.element.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    await perform(form.request(), operation.method, result);
    send.disabled = false;
  });
  showSnippets();
  return el(
    "section",
    { className: "card operation", id: operation.id, "aria-label": `${operation.method} ${operation.path}` },
    el("h2", {}, badge(operation.method), el("code", { textContent: operation.path })),
    el("p", { className: "summary" }, ...prose(operation.summary)),
    ...(operation.description ? [el("p", {}, ...prose(operation.description))] : []),
    form.element,
    snippet("curl", code.curl),
    snippet("Python", code.python),
    result,
    statuses(operation),
  );
}

function snippet(title, code) {
  const copy = el("button", { type: "button", className: "quiet", textContent: "Copy", "aria-label": `Copy ${title}` });
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(code.textContent);
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  return el("figure", { className: "snippet" }, el("figcaption", {}, title, navigator.clipboard ? copy : null), el("pre", { tabIndex: 0 }, code));
}

function statuses(operation) {
  const rows = Object.entries(operation.responses).map(([status, { description }]) =>
    el("li", {}, el("code", { textContent: status }), el("span", {}, ...prose(description))),
  );
  return el("details", {}, el("summary", { textContent: "Responses" }), el("ul", { className: "statuses" }, ...rows));
}

/** Send a request and show the response. */
async function perform({ url, headers, body }, method, result) {
  result.hidden = false;
  result.replaceChildren(el("p", { textContent: "Sending…" }));
  try {
    const response = await fetch(url, { method, headers, body });
    const type = response.headers.get("content-type") ?? "";
    const line = el("p", { className: response.ok ? "status" : "status bad", textContent: `${response.status} ${response.statusText} · ${type}` });
    result.replaceChildren(line, await bodyElement(response, type));
  } catch (error) {
    result.replaceChildren(el("p", { className: "status bad", textContent: explain(error) }));
  }
}

async function bodyElement(response, type) {
  const picture = type.startsWith("image/") || (type === "application/octet-stream" && response.ok);
  if (picture) return el("img", { src: URL.createObjectURL(await response.blob()), alt: "The photo in the response" });
  const text = await response.text();
  const pretty = type.includes("json") && text ? JSON.stringify(JSON.parse(text), null, 2) : text;
  const cut = pretty.length > MAX_LETTERS ? `${pretty.slice(0, MAX_LETTERS)}\n… and ${(pretty.length - MAX_LETTERS).toLocaleString("en")} more characters` : pretty;
  return el("pre", { tabIndex: 0, textContent: cut });
}

async function start() {
  try {
    const spec = await (await fetch("/openapi.json")).json();
    const operations = operationsOf(spec);
    byId("about").replaceChildren(...prose(`${spec.info.description} Version ${spec.info.version}. Errors are problem documents with a type, a detail and what to do.`));
    showRoutes(operations);
    byId("operations").replaceChildren(...operations.map((operation) => section(operation, spec)));
    document.body.dataset.ready = "true";
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    byId("notes").textContent = explain(error);
    byId("notes").hidden = false;
  }
}

start();
