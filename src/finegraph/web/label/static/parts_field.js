// A field that gives items to named parts: the labels of a kind that is split, or the classes of a label.
//
// Items are asked for in pages and can be searched; what was given stays given, also of items that are out of sight.

import { button, count, el, fill } from "./dom.js";
import { afterTyping } from "./typing.js";

const PAGE = 200;
const split = (text) => text.split(",").map((name) => name.trim()).filter(Boolean);

/**
 * @param {(search: string, offset: number, limit: number) => Promise<{items: string[], total: number}>} load
 * @param {(() => string)|null} rest names what items stay that are given to no part; null if each must be given
 */
export function partsField(load, rest) {
  const names = el("input", { type: "text", autocomplete: "off", placeholder: "New names, separated by commas", "aria-label": "New names" });
  const search = el("input", { type: "search", placeholder: "Search", "aria-label": "Search what is split", hidden: true });
  const everything = el("div", { class: "row wrap" });
  const list = el("div", { class: "parts" });
  const state = { items: [], total: 0, whole: 0, given: new Map(), asked: 0 };

  const targets = () => (rest ? ["", ...split(names.value)] : split(names.value));
  const partOf = (item) => (targets().includes(state.given.get(item)) ? state.given.get(item) : (targets()[0] ?? ""));
  const chooser = (chosen, onchange, label) => {
    const options = targets().map((name) => el("option", { value: name, selected: name === chosen }, name || `stays ${rest()}`));
    return el("select", { "aria-label": label, onchange: (event) => onchange(event.target.value) }, options);
  };

  const draw = () => {
    search.hidden = state.whole <= PAGE / 4;
    const lines = state.items.map((item) =>
      el("label", { class: "row" }, el("span", { class: "name" }, item), chooser(partOf(item), (part) => state.given.set(item, part), item)),
    );
    const left = state.total - state.items.length;
    const more = left > 0 && button(`Show more (${left.toLocaleString("en")} left)`, () => fetch(false), { class: "quiet" });
    fill(list, lines, more);
    fill(everything, state.total > 1 && split(names.value).length > 0 && giveAll());
  };

  /** Give all that the search finds to one part. */
  const giveAll = () => {
    let part = targets()[0];
    const give = async () => {
      while (state.items.length < state.total && (await fetch(false)));
      for (const item of state.items) state.given.set(item, part);
      draw();
    };
    const found = count(state.total, search.value.trim() ? "that is found" : "of them", search.value.trim() ? "that are found" : "of them");
    return [el("span", { class: "muted" }, `All ${found} go to`), chooser(part, (name) => (part = name), "Part for all"), button("Give", give, { class: "small" })];
  };

  /** Load items: the first ones, or some more; whether there were any. */
  const fetch = async (first) => {
    const turn = first ? ++state.asked : state.asked;
    const offset = first ? 0 : state.items.length;
    const page = await load(search.value.trim(), offset, PAGE).catch(() => ({ items: [], total: offset }));
    if (turn !== state.asked) return false; // something else is asked for by now
    state.items = first ? page.items : [...state.items, ...page.items];
    state.total = page.total;
    if (!search.value.trim()) state.whole = page.total;
    draw();
    return page.items.length > 0;
  };

  names.addEventListener("input", draw);
  search.addEventListener("input", afterTyping(() => fetch(true)));
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault()); // not yet the preview
  const reload = () => {
    state.given.clear();
    search.value = "";
    return fetch(true);
  };
  reload();

  const value = () => {
    const found = {};
    const items = rest ? [...state.given.keys()] : state.items;
    for (const item of items) if (partOf(item)) (found[partOf(item)] ??= []).push(item);
    return found;
  };
  return { root: el("div", { class: "split" }, names, search, everything, list), value, load: reload };
}
