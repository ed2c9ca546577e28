// The order of the similar photos, and a limit on them: "cheaper than this one", "hotter than that one". The one is the
// photo that is looked at, or a hit that was tapped.

import { byId, el } from "./dom.js";

const SIGNS = { above: ">", below: "<" };
let sorting = ""; // as the server takes it: "price", "-price", or nothing
let limit = null; // {name, side, hit}: above or below the photo itself, or a hit
let changed = () => {};
let scales = []; // what has an order: {name, unit, labels}

/** Show the choices of a model with numbers or ordered kinds; `change` looks for photos again. */
export function buildOrders(model, change) {
  changed = change;
  scales = [
    ...(model.numbers ?? []).map(({ name, unit }) => ({ name, unit, labels: null })),
    ...model.kinds.filter((kind) => kind.order).map(({ name, order }) => ({ name, unit: "", labels: order })),
  ];
  forgetOrders();
}

/** Begin anew, as with another photo. */
export function forgetOrders() {
  sorting = "";
  limit = null;
  show();
}

function choice(value, textContent, selected) {
  return el("option", { value, textContent, selected });
}

function show() {
  const sorts = [choice("", "by looks", !sorting)];
  const limits = [choice("", "any", !limit)];
  for (const { name } of scales) {
    sorts.push(choice(name, `${name}, rising`, sorting === name), choice(`-${name}`, `${name}, falling`, sorting === `-${name}`));
    for (const side of ["below", "above"]) {
      const chosen = limit?.name === name && limit.side === side;
      limits.push(choice(`${side} ${name}`, `${name} ${side} ${limit?.hit ? "that one" : "this one"}`, chosen));
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

function choose(sort, wanted) {
  [sorting, limit] = [sort, wanted];
  show();
  changed();
}

export const sortOf = () => sorting;

/** The filter that the limit is: of the photo itself, or of the value of a hit. */
export function limitTexts() {
  if (!limit) return [];
  const { name, side, hit } = limit;
  return [`${name}${SIGNS[side]}${hit ? placeOf(hit, name) : "this"}`];
}

/** What a hit has of a number, or its label of an ordered kind; undefined where that is not known. */
function placeOf(hit, name) {
  const labels = hit.kinds[name] ?? [];
  return hit.values?.[name] ?? (labels.length === 1 ? labels[0] : undefined);
}

/** What a hit has of everything with an order, in words. */
export function placesOf(hit) {
  const known = scales.filter(({ name }) => placeOf(hit, name) !== undefined);
  return known.map(({ name, unit }) => `${name} ${digits(placeOf(hit, name))}${unit ? ` ${unit}` : ""}`);
}

/** Take a hit as the one that others are to be above or below, or the photo again where it is tapped once more. */
export function toggleHit(hit) {
  const name = limit?.name ?? (sorting.replace(/^-/, "") || scales[0].name);
  const known = scales.find((one) => placeOf(hit, one.name) !== undefined && one.name === name) ?? scales.find((one) => placeOf(hit, one.name) !== undefined);
  if (!known) return;
  const side = limit?.side ?? "above";
  choose(sorting, limit?.hit?.thumbnail === hit.thumbnail ? null : { name: known.name, side, hit });
}

export const isTaken = (hit) => limit?.hit?.thumbnail === hit.thumbnail;
export const isOrdered = () => Boolean(sorting || limit);
export const hasOrders = () => scales.length > 0;

/** Say what the limit is, by the answer of the server. */
export function showLimit(limits) {
  if (!limit) return byId("limit-words").replaceChildren();
  const { name, side, hit } = limit;
  const scale = scales.find((one) => one.name === name);
  const place = hit ? String(placeOf(hit, name)) : (limits[name] ?? "").replace(/^[<>]=? /, "");
  const unit = scale?.unit ? ` ${scale.unit}` : "";
  const whose = hit ? `that of ${hit.label ?? hit.guess ?? hit.name}` : "what this photo is expected to have";
  return byId("limit-words").replaceChildren(`${name} ${side} ${digits(place)}${unit}, ${whose}.`);
}

function digits(value) {
  const number = Number(value);
  if (Number.isNaN(number)) return value;
  return Number.isInteger(number) || Math.abs(number) >= 1000 ? String(Math.round(number)) : String(Number(number.toPrecision(3)));
}
