// A form for one route, built from its description: parameters of path and query, fields and photos of a multipart body,
// or a JSON body. Empty fields are not sent.

import { el } from "/shared/elements.js";

let count = 0;

/** A schema with its `$ref` resolved. */
function resolved(schema, spec) {
  if (!schema?.$ref) return schema ?? {};
  return schema.$ref.slice(2).split("/").reduce((found, part) => found[part], spec);
}

/** The alternative of a schema that is not null. */
const plain = (schema) => schema.anyOf?.find(({ type }) => type !== "null") ?? schema;

/** The initial body of a form: all required fields, and those with a default. */
function exampleOf(schema, spec) {
  const { properties = {}, required = [] } = resolved(schema, spec);
  const filled = Object.entries(properties).filter(([name, { default: value }]) => required.includes(name) || value !== undefined);
  return Object.fromEntries(filled.map(([name, { default: value, type }]) => [name, value ?? (type === "object" ? {} : "")]));
}

/**
 * @param operation a route with its path
 * @param onChange () => void, called after every change
 * @returns {element, request()}; a request has url, query, headers and body, and fields, files and json for the snippets
 */
export function makeForm(operation, spec, onChange) {
  const parameters = (operation.parameters ?? []).map((one) => field(one.name, one.schema, one.description, one.required, one.in));
  const content = operation.requestBody?.content ?? {};
  const parts = Object.entries(resolved(content["multipart/form-data"]?.schema, spec).properties ?? {});
  const required = resolved(content["multipart/form-data"]?.schema, spec).required ?? [];
  const fields = parts.map(([name, schema]) => field(name, schema, schema.description, required.includes(name), "body"));
  const json = content["application/json"] && jsonField(exampleOf(content["application/json"].schema, spec));
  const all = [...parameters, ...fields, ...(json ? [json] : [])];
  const element = el("form", { noValidate: true }, ...all.map((one) => one.element));
  element.addEventListener("input", onChange);
  return { element, request: () => requestOf(operation.path, parameters, fields, json) };
}

function requestOf(template, parameters, fields, json) {
  const given = parameters.flatMap((one) => one.values().map((value) => [one, value]));
  const path = given.filter(([one]) => one.place === "path").reduce((made, [one, value]) => made.replace(`{${one.name}}`, encodeURIComponent(value)), template);
  const query = given.filter(([one]) => one.place === "query").map(([one, value]) => [one.name, value]);
  const url = query.length ? `${path}?${new URLSearchParams(query)}` : path;
  if (json) return { url, path, query, headers: { "Content-Type": "application/json" }, body: json.values()[0], json: json.values()[0] };
  if (!fields.length) return { url, path, query };
  const texts = fields.filter((one) => !one.files).flatMap((one) => one.values().map((value) => [one.name, value]));
  const files = fields.filter((one) => one.files).flatMap((one) => one.files().map((file) => [one.name, file]));
  const body = new FormData();
  for (const [name, value] of [...files, ...texts]) body.append(name, value);
  return { url, path, query, body, fields: texts, files: files.length ? files.map(([name, file]) => [name, file.name]) : [["photo", "photo.jpg"]] };
}

/** A field with its name, description and input. */
function field(name, schema, words, required, place) {
  count += 1;
  const kind = plain(schema);
  const id = `field-${count}`;
  const input = inputOf(kind, id, required, schema.default);
  const several = kind.type === "array" && kind.items?.format !== "binary";
  const about = [words, several ? "One per line." : "", required ? "Required." : ""].filter(Boolean).join(" ");
  const element = el("p", { className: "field" }, el("label", { htmlFor: id }, el("code", { textContent: name })), input, el("span", { className: "about", textContent: about }));
  const values = () => (several ? input.value.split("\n") : [input.value]).filter((value) => value !== "");
  return { name, place, element, values, files: input.type === "file" ? () => [...input.files] : undefined };
}

function inputOf(schema, id, required, defaultValue) {
  if (schema.type === "array" && schema.items?.format === "binary") return el("input", { id, type: "file", multiple: true, accept: "image/*", required });
  if (schema.type === "array") return el("textarea", { id, rows: 1, spellcheck: false });
  if (schema.type === "boolean") {
    const choices = ["", "true", "false"].map((value) => el("option", { value, textContent: value || defaultValue === undefined || defaultValue === null ? "default" : `${defaultValue} by default` }));
    return el("select", { id }, ...choices);
  }
  const number = schema.type === "integer" || schema.type === "number";
  const placeholder = defaultValue === undefined || defaultValue === null || defaultValue === "" ? "" : `${defaultValue} by default`;
  const range = Object.fromEntries([["min", schema.minimum], ["max", schema.maximum]].filter(([, value]) => value !== undefined));
  return el("input", { id, type: number ? "number" : "text", step: schema.type === "integer" ? "1" : "any", placeholder, required, spellcheck: false, autocomplete: "off", ...range });
}

function jsonField(example) {
  count += 1;
  const id = `field-${count}`;
  const input = el("textarea", { id, rows: 8, spellcheck: false, value: JSON.stringify(example, null, 2) });
  const element = el("p", { className: "field json" }, el("label", { htmlFor: id, textContent: "JSON body" }), input);
  return { element, values: () => [input.value] };
}
