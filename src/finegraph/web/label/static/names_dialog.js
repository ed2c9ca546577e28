// Adding, renaming, merging and splitting labels, kinds and classes: first a preview, then the change.
//
// The dialog stays open until the change is made. If somebody has edited something meanwhile that the preview covers,
// nothing is changed, and the dialog shows the new preview.

import { button, el, fill } from "/shared/elements.js";
import { openDialog } from "./dialogs.js";
import { askServer, model } from "./model.js";
import { FIELDS } from "./names_fields.js";
import { FORMS } from "./names_forms.js";
import { actInDialog, newPreview } from "./outcome.js";
import { count } from "./texts.js";
import { inWords } from "./values.js";

/** Open the dialog; `chosen` has the focused kind and class. */
export function openNames(chosen, first = model.kinds.length ? "add_label" : "add_kind") {
  const { body, dialog } = openDialog("Names", { wide: true });
  const menu = el("div", { class: "menu", role: "tablist" });
  const form = el("div", { class: "names-form" });
  const show = (name) => {
    const tabs = Object.entries(FORMS).map(([other, { title }]) =>
      el("button", { type: "button", role: "tab", "aria-selected": String(other === name), onclick: () => show(other) }, title),
    );
    menu.replaceChildren(...tabs);
    form.replaceChildren(drawForm(name, { ...chosen }, dialog));
    form.querySelector("input, select")?.focus();
  };
  fill(body, el("div", { class: "names" }, menu, form));
  show(first);
}

function drawForm(name, chosen, dialog) {
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
    await showPreview({ change: name, ...values }, result, dialog);
  };
  return el("form", { onsubmit: preview }, inputs, el("footer", {}, el("button", { type: "submit" }, "Preview")), result);
}

const fault = (problem) => el("p", { class: "fault", role: "alert" }, problem.message);

async function showPreview(change, result, dialog) {
  const found = await askServer("/api/preview", { change }).catch((problem) => problem);
  if (found instanceof Error) return fill(result, fault(found));
  drawPreview(found, change, result, dialog);
}

async function makeChange(found, change, result, dialog) {
  fill(result, el("p", { class: "muted", role: "status" }, "Saving … It is sent as soon as the server answers; you may close this dialog."));
  const outcome = await actInDialog(dialog, "/api/apply", { change, digest: found.digest });
  if (outcome?.answer) return dialog.close();
  if (!outcome) return;
  if (newPreview(outcome)) drawPreview(newPreview(outcome), change, result, dialog, true);
  else fill(result, fault(outcome.problem));
}

/** Draw the preview of a change; `again`: it differs from the preview before. */
function drawPreview(found, change, result, dialog, again = false) {
  const apply = button("Make this change", () => makeChange(found, change, result, dialog), { class: "primary" });
  const rows = found.examples.map((one) =>
    el("tr", {}, el("td", {}, one.fine), el("td", {}, one.kind), el("td", {}, inWords(one.before)), el("td", {}, "→"), el("td", {}, el("strong", {}, inWords(one.after)))),
  );
  const more = found.cells > rows.length && el("p", { class: "muted" }, `and ${count(found.cells - rows.length, "more label")}`);
  fill(
    result,
    again && el("p", { class: "warn", role: "alert" }, "Nothing was changed: somebody has edited something since the preview. This is what would happen now."),
    el("p", {}, el("strong", {}, found.text)),
    found.warnings.map((text) => el("p", { class: "warn" }, text)),
    rows.length > 0 && el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, rows))),
    more,
    el("footer", {}, apply),
  );
  if (!again) return apply.focus();
  dialog.tabIndex = -1;
  dialog.focus(); // the next key must not press the button
}
