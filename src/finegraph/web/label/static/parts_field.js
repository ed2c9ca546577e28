// A field that assigns items to named parts: the labels of a kind that is split, or the classes of a label.
//
// Items are loaded in pages and can be searched; assignments of items that are not shown stay.

import { button, el, fill } from "/shared/elements.js";
import { debounce } from "./debounce.js";
import { count } from "./texts.js";

const PAGE = 200;
const split = (text) => text.split(",").map((name) => name.trim()).filter(Boolean);

/**
 * @param {(search: string, offset: number, limit: number) => Promise<{items: string[], total: number}>} load
 * @param {(() => string)|null} rest the name that unassigned items keep; null if each item must be assigned
 */
export function partsField(load, rest) {
  const names = el("input", { type: "text", autocomplete: "off", placeholder: "New names, separated by commas", "aria-label": "New names" });
  const search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search the items", hidden: true });
  const everything = el("div", { class: "row wrap" });
  const list = el("div", { class: "parts" });
  const state = { items: [], total: 0, whole: 0, assigned: new Map(), request: 0 };

  const targets = () => (rest ? ["", ...split(names.value)] : split(names.value));
  const partOf = (item) => (targets().includes(state.assigned.get(item)) ? state.assigned.get(item) : (targets()[0] ?? ""));
  const chooser = (chosen, onchange, label) => {
    const options = targets().map((name) => el("option", { value: name, selected: name === chosen }, name || `stays ${rest()}`));
    return el("select", { "aria-label": label, onchange: (event) => onchange(event.target.value) }, options);
  };

  const draw = () => {
    search.hidden = state.whole <= PAGE / 4;
    const lines = state.items.map((item) =>
      el("label", { class: "row" }, el("span", { class: "name" }, item), chooser(partOf(item), (part) => state.assigned.set(item, part), item)),
    );
    const left = state.total - state.items.length;
    const more = left > 0 && button(`Show more (${left.toLocaleString("en")} left)`, () => fetch(false), { class: "quiet" });
    fill(list, lines, more);
    fill(everything, state.total > 1 && split(names.value).length > 0 && assignAll());
  };

  /** Assign all items of the search to one part. */
  const assignAll = () => {
    let part = targets()[0];
    const assign = async () => {
      while (state.items.length < state.total && (await fetch(false)));
      for (const item of state.items) state.assigned.set(item, part);
      draw();
    };
    const found = count(state.total, search.value.trim() ? "that is found" : "of them", search.value.trim() ? "that are found" : "of them");
    return [el("span", { class: "muted" }, `All ${found} go to`), chooser(part, (name) => (part = name), "Part for all"), button("Assign", assign, { class: "small" })];
  };

  /** Load the first items, or the next ones; resolves to whether there were any. */
  const fetch = async (first) => {
    const request = first ? ++state.request : state.request;
    const offset = first ? 0 : state.items.length;
    const page = await load(search.value.trim(), offset, PAGE).catch(() => ({ items: [], total: offset }));
    if (request !== state.request) return false; // other items were requested meanwhile
    state.items = first ? page.items : [...state.items, ...page.items];
    state.total = page.total;
    if (!search.value.trim()) state.whole = page.total;
    draw();
    return page.items.length > 0;
  };

  names.addEventListener("input", draw);
  search.addEventListener("input", debounce(() => fetch(true)));
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault()); // must not submit the form
  const reload = () => {
    state.assigned.clear();
    search.value = "";
    return fetch(true);
  };
  reload();

  const value = () => {
    const found = {};
    const items = rest ? [...state.assigned.keys()] : state.items;
    for (const item of items) if (partOf(item)) (found[partOf(item)] ??= []).push(item);
    return found;
  };
  return { root: el("div", { class: "split" }, names, search, everything, list), value, load: reload };
}
