// The fields of the forms that change names. Each draws itself into a label and says its value.

import { get } from "./api.js";
import { el } from "./dom.js";
import { kindNamed, model } from "./model.js";

const select = (names, chosen) => el("select", {}, names.map((name) => el("option", { value: name, selected: name === chosen }, name)));

/** Types of fields: (scope) => {root, value()}. `scope.kind()` is the name of the kind chosen in the same form. */
export const FIELDS = {
  text: () => {
    const root = el("input", { type: "text", autocomplete: "off", maxlength: "300" });
    return { root, value: () => root.value.trim() };
  },
  list: () => {
    const root = el("input", { type: "text", autocomplete: "off", maxlength: "5000", placeholder: "no, yes" });
    return { root, value: () => root.value.split(",").map((name) => name.trim()).filter(Boolean) };
  },
  mode: () => {
    const root = el("select", {}, el("option", { value: "one" }, "one of these labels"), el("option", { value: "all" }, "any number of these labels"));
    return { root, value: () => root.value };
  },
  kind: (scope) => {
    const root = select(model.kinds.map((kind) => kind.name), scope.chosen.kind);
    root.addEventListener("change", () => scope.kindChanged(root.value));
    return { root, value: () => root.value };
  },
  kinds: () => ticks(model.kinds.map((kind) => kind.name)),
  label: (scope) => {
    const root = select(kindNamed(scope.kind())?.labels ?? []);
    root.addEventListener("change", () => scope.labelChanged?.());
    return { root, value: () => root.value };
  },
  labels: (scope) => ticks(kindNamed(scope.kind())?.labels ?? []),
  fine: (scope) => {
    const root = el("input", { type: "text", value: scope.chosen.fine ?? "", autocomplete: "off" });
    return { root, value: () => root.value.trim() };
  },
  parts: (scope) => parts(async () => kindNamed(scope.kind())?.labels ?? [], null),
  classes: (scope) => {
    const field = parts(async () => {
      const page = await get("/api/classes", { kind: scope.kind(), label: scope.label(), limit: 200 });
      return page.rows.map((row) => row.fine);
    }, () => scope.label());
    scope.labelChanged = () => field.load();
    return field;
  },
};

function ticks(names) {
  const boxes = names.map((name) => el("input", { type: "checkbox", value: name }));
  const root = el("div", { class: "ticks" }, boxes.map((box) => el("label", {}, box, box.value)));
  return { root, value: () => boxes.filter((box) => box.checked).map((box) => box.value) };
}

/** Items that are given to named parts; `rest` names the part of items that stay as they are, if they may. */
function parts(loadItems, rest) {
  const names = el("input", { type: "text", autocomplete: "off", placeholder: "New names, separated by commas", "aria-label": "New names" });
  const list = el("div", { class: "parts" });
  const root = el("div", {}, names, list);
  let items = [];
  const given = new Map();
  const draw = () => {
    const targets = names.value.split(",").map((name) => name.trim()).filter(Boolean);
    const choices = rest ? ["", ...targets] : targets;
    const lines = items.map((item) => {
      const chosen = choices.includes(given.get(item)) ? given.get(item) : choices[0];
      const options = choices.map((name) => el("option", { value: name, selected: name === chosen }, name || `stays ${rest()}`));
      given.set(item, chosen);
      return el("label", { class: "row" }, el("span", { class: "name" }, item), el("select", { onchange: (event) => given.set(item, event.target.value) }, options));
    });
    list.replaceChildren(...lines);
  };
  let asked = 0;
  const load = async () => {
    const turn = ++asked;
    const found = await loadItems().catch(() => []);
    if (turn !== asked) return; // another label was chosen meanwhile
    items = found;
    given.clear();
    draw();
  };
  names.addEventListener("input", draw);
  load();
  const value = () => {
    const found = {};
    for (const item of items) if (given.get(item)) (found[given.get(item)] ??= []).push(item);
    return found;
  };
  return { root, value, load };
}
