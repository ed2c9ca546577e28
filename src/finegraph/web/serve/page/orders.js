// The order of the similar photos, and a limit on them, such as "cheaper than this photo" or "hotter than the selected hit".

import { byId, el } from "/shared/elements.js";

const SIGNS = { above: ">", below: "<" };
let sorting = ""; // the `sort` field of the request: "price", "-price", or empty
let limit = null; // {name, side, hit}: above or below the photo itself (hit is null), or a hit
let onChange = () => {};
let scales = []; // the numbers and ordered kinds: {name, unit}

/** Build the choices for a model with numbers or ordered kinds; `callback` is called after each choice. */
export function buildOrders(model, callback) {
  onChange = callback;
  scales = [
    ...(model.numbers ?? []).map(({ name, unit }) => ({ name, unit })),
    ...model.kinds.filter((kind) => kind.ordered).map(({ name }) => ({ name, unit: "" })),
  ];
  resetOrders();
}

/** Start over, for another photo. */
export function resetOrders() {
  sorting = "";
  limit = null;
  show();
}

function choice(value, textContent, selected) {
  return el("option", { value, textContent, selected });
}

function show() {
  const sorts = [choice("", "by similarity", !sorting)];
  const limits = [choice("", "any", !limit)];
  for (const { name } of scales) {
    sorts.push(choice(name, `${name}, ascending`, sorting === name), choice(`-${name}`, `${name}, descending`, sorting === `-${name}`));
    for (const side of ["below", "above"]) {
      const chosen = limit?.name === name && limit.side === side;
      limits.push(choice(`${side} ${name}`, `${name} ${side} ${limit?.hit ? "the selected photo" : "this photo"}`, chosen));
    }
  }
  const sort = el("select", { id: "sort-by", onchange: () => choose(sort.value, limit) }, ...sorts);
  const only = el("select", { id: "limit-by", onchange: () => choose(sorting, limitOf(only.value)) }, ...limits);
  byId("orders").replaceChildren(el("label", {}, "Order ", sort), el("label", {}, "Only ", only));
  byId("orders").hidden = scales.length === 0;
  byId("limit-words").replaceChildren();
}

function limitOf(value) {
  if (!value) return null;
  const [side, ...words] = value.split(" ");
  return { name: words.join(" "), side, hit: limit?.hit ?? null };
}

function choose(newSorting, newLimit) {
  [sorting, limit] = [newSorting, newLimit];
  show();
  onChange();
}

export const sortOf = () => sorting;

/** The limit as filter texts of a request. */
export function limitTexts() {
  if (!limit) return [];
  const { name, side, hit } = limit;
  return [`${name}${SIGNS[side]}${hit ? valueOf(hit, name) : "this"}`];
}

/** The value of a number of a hit, or its label of an ordered kind; undefined if unknown. */
function valueOf(hit, name) {
  const labels = hit.ordered?.[name] ?? [];
  return hit.values?.[name] ?? (labels.length === 1 ? labels[0] : undefined);
}

/** The values of a hit on all scales, as texts. */
export function valueTexts(hit) {
  const present = scales.filter(({ name }) => valueOf(hit, name) !== undefined);
  return present.map(({ name, unit }) => `${name} ${digits(valueOf(hit, name))}${unit ? ` ${unit}` : ""}`);
}

/** Set the limit to the value of a hit; a second tap removes it. */
export function toggleHit(hit) {
  const name = limit?.name ?? (sorting.replace(/^-/, "") || scales[0].name);
  const present = scales.filter((one) => valueOf(hit, one.name) !== undefined);
  const scale = present.find((one) => one.name === name) ?? present[0];
  if (!scale) return;
  const side = limit?.side ?? "above";
  choose(sorting, limit?.hit?.thumbnail === hit.thumbnail ? null : { name: scale.name, side, hit });
}

export const isSelected = (hit) => limit?.hit?.thumbnail === hit.thumbnail;
export const isOrdered = () => Boolean(sorting || limit);
export const hasOrders = () => scales.length > 0;

/** Show the limit as a sentence; `limits` are those of the response. */
export function showLimit(limits) {
  if (!limit) return byId("limit-words").replaceChildren();
  const { name, side, hit } = limit;
  const scale = scales.find((one) => one.name === name);
  const place = hit ? String(valueOf(hit, name)) : (limits[name] ?? "").replace(/^[<>]=? /, "");
  const unit = scale?.unit ? ` ${scale.unit}` : "";
  const whose = hit ? `that of ${hit.label ?? hit.guess ?? hit.name}` : "the expected value of this photo";
  return byId("limit-words").replaceChildren(`${name} ${side} ${digits(place)}${unit}, ${whose}.`);
}

function digits(value) {
  const number = Number(value);
  if (Number.isNaN(number)) return value;
  return Number.isInteger(number) || Math.abs(number) >= 1000 ? String(Math.round(number)) : String(Number(number.toPrecision(3)));
}
