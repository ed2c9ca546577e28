// Adding, renaming, merging and splitting labels, kinds and classes: first a preview of what changes, then the change.

import { button, count, el, fill } from "./dom.js";
import { openDialog, say } from "./dialogs.js";
import { act, askServer } from "./model.js";
import { FIELDS } from "./names_fields.js";
import { FORMS } from "./names_forms.js";
import { inWords } from "./values.js";

/** Open the window; `chosen` is the kind and the class that the person looks at. */
export function openNames(chosen, first = "add_label") {
  const { body, close } = openDialog("Names", { wide: true });
  const menu = el("div", { class: "menu", role: "tablist" });
  const form = el("div", { class: "names-form" });
  const show = (name) => {
    const tabs = Object.entries(FORMS).map(([other, { title }]) =>
      el("button", { type: "button", role: "tab", "aria-selected": String(other === name), onclick: () => show(other) }, title),
    );
    menu.replaceChildren(...tabs);
    form.replaceChildren(drawForm(name, { ...chosen }, close));
    form.querySelector("input, select")?.focus();
  };
  fill(body, el("div", { class: "names" }, menu, form));
  show(first);
}

function drawForm(name, chosen, close) {
  const fields = {};
  const scope = {
    chosen,
    kind: () => (fields.kind ?? fields.name)?.value(),
    label: () => fields.name?.value(),
    kindChanged: (kind) => {
      chosen.kind = kind;
      redraw();
    },
  };
  const inputs = el("div", {});
  const result = el("div", { class: "preview" });
  const redraw = () => {
    const rows = FORMS[name].fields.map(([field, type, label]) => {
      fields[field] = FIELDS[type](scope);
      fields[field].root.setAttribute("aria-label", label);
      const tag = ["labels", "kinds", "parts", "classes"].includes(type) ? "div" : "label";
      return el(tag, { class: "field" }, el("span", {}, label), fields[field].root);
    });
    fill(inputs, rows);
    result.replaceChildren();
  };
  redraw();
  const preview = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(Object.entries(fields).map(([field, { value }]) => [field, value()]));
    await showPreview({ change: name, ...values }, result, close);
  };
  return el("form", { onsubmit: preview }, inputs, el("footer", {}, el("button", { type: "submit" }, "Preview")), result);
}

async function showPreview(change, result, close) {
  let found;
  try {
    found = await askServer("/api/preview", { change });
  } catch (problem) {
    return fill(result, el("p", { class: "fault", role: "alert" }, problem.message));
  }
  const apply = button("Make this change", () => {
    act("/api/apply", { change, digest: found.digest });
    say(found.text);
    close();
  }, { class: "primary" });
  const rows = found.examples.map((one) =>
    el("tr", {}, el("td", {}, one.fine), el("td", {}, one.kind), el("td", {}, inWords(one.before)), el("td", {}, "→"), el("td", {}, el("strong", {}, inWords(one.after)))),
  );
  const more = found.cells > rows.length && el("p", { class: "muted" }, `and ${count(found.cells - rows.length, "more cell")}`);
  fill(
    result,
    el("p", {}, el("strong", {}, found.text)),
    found.warnings.map((text) => el("p", { class: "warn" }, text)),
    rows.length > 0 && el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, rows))),
    more,
    el("footer", {}, apply),
  );
  apply.focus();
}
