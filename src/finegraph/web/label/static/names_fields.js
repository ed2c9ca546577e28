// The fields of the forms that change names, each with its element and value.

import { el } from "/shared/elements.js";
import { get } from "./label_api.js";
import { kindNamed, model } from "./model.js";
import { partsField } from "./parts_field.js";

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
  type: () => {
    const types = { "": "labels", ordered: "labels in ascending order", number: "numbers (the labels are values; may be empty)", "log number": "numbers whose ratios count, such as prices" };
    const root = el("select", {}, Object.entries(types).map(([value, text]) => el("option", { value }, text)));
    return { root, value: () => root.value };
  },
  kind: (scope) => {
    const root = select(model.kinds.map((kind) => kind.name), scope.chosen.kind);
    root.addEventListener("change", () => scope.kindChanged(root.value));
    return { root, value: () => root.value };
  },
  kinds: () => checkboxes(model.kinds.map((kind) => kind.name)),
  label: (scope) => {
    const root = select(kindNamed(scope.kind())?.labels ?? []);
    root.addEventListener("change", () => scope.labelChanged?.());
    return { root, value: () => root.value };
  },
  labels: (scope) => checkboxes(kindNamed(scope.kind())?.labels ?? []),
  fine: (scope) => {
    const root = el("input", { type: "text", value: scope.chosen.fine ?? "", autocomplete: "off" });
    return { root, value: () => root.value.trim() };
  },
  parts: (scope) => partsField(async () => labelsOf(scope.kind()), null),
  classes: (scope) => {
    const field = partsField(async (search, offset, limit) => {
      const page = await get("/api/classes", { kind: scope.kind(), label: scope.label(), search, offset, limit });
      return { items: page.rows.map((row) => row.fine), total: page.total };
    }, () => scope.label());
    scope.labelChanged = () => field.load();
    return field;
  },
};

/** All labels of a kind. Each must be assigned to a part, so the search is ignored. */
function labelsOf(kind) {
  const items = kindNamed(kind)?.labels ?? [];
  return { items, total: items.length };
}

function checkboxes(names) {
  const boxes = names.map((name) => el("input", { type: "checkbox", value: name }));
  const root = el("div", { class: "checkboxes" }, boxes.map((box) => el("label", {}, box, box.value)));
  return { root, value: () => boxes.filter((box) => box.checked).map((box) => box.value) };
}
