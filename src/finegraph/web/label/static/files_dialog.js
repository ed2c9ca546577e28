// Files in and out: export, import with a preview, and the difference between two states.

import { button, el, fill } from "/shared/elements.js";
import { openDialog, say } from "./dialogs.js";
import { download, get } from "./label_api.js";
import { askServer, model } from "./model.js";
import { actInDialog, newPreview } from "./outcome.js";
import { count, when } from "./texts.js";

const EXPORTS = {
  csv: ["Graph as CSV", "csv"],
  json: ["Graph as JSON", "json"],
  "label-studio": ["Label Studio", "label-studio.json"],
  photos: ["Photo labels", "photos.csv"],
  comparisons: ["Comparisons", "comparisons.csv"],
  "csv?compared=classes": ["Graph with values from comparisons", "compared.csv"],
};
const MAX_SHOWN = 200;

/** Open the dialog for files. */
export function openFiles() {
  const { body, dialog } = openDialog("Files", { wide: true });
  fill(body, exportPart(), importPart(dialog), diffPart());
}

function exportPart() {
  const buttons = Object.entries(EXPORTS).map(([form, [text, ending]]) =>
    button(text, () => download(`/api/export/${form}`, `${model.name || "labels"}.${ending}`).catch((problem) => say(problem.message, { fault: true }))),
  );
  return el("section", {}, el("h3", {}, "Export"), el("div", { class: "row wrap" }, buttons));
}

function importPart(dialog) {
  const result = el("div", { class: "preview" });
  const input = el("input", { type: "file", accept: ".csv,.json", "aria-label": "File to import" });
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    const given = { name: file.name, text: await file.text() };
    const found = await askServer("/api/import/preview", given).catch((problem) => problem);
    if (found instanceof Error) fill(result, fault(found));
    else drawImport(found, given, result, dialog);
  });
  const hint = el("p", { class: "hint" }, "A graph as CSV or JSON, an export of Label Studio, photo labels or comparisons as CSV. First you see what would change.");
  return el("section", {}, el("h3", {}, "Import"), hint, input, result);
}

const fault = (problem) => el("p", { class: "fault", role: "alert" }, problem.message);

/** Draw the preview of an import; `again`: it differs from the preview before. */
function drawImport(found, given, result, dialog, again = false) {
  const apply = button("Import these labels", () => applyImport(found, given, result, dialog), { class: "primary" });
  const warning = "Nothing was changed: somebody has edited something since the preview. This is what the import would change now.";
  fill(result, again && el("p", { class: "warn", role: "alert" }, warning), changeList(found), found.changes.length > 0 && el("footer", {}, apply));
}

async function applyImport(found, given, result, dialog) {
  fill(result, el("p", { class: "muted", role: "status" }, "Saving … It is sent as soon as the server answers; you may close this dialog."));
  const outcome = await actInDialog(dialog, "/api/import", { ...given, digest: found.digest });
  if (!outcome) return;
  if (outcome.answer) fill(result, el("p", { role: "status" }, "Saved. One undo (u) reverts it."));
  else if (newPreview(outcome)) drawImport(newPreview(outcome), given, result, dialog, true);
  else fill(result, fault(outcome.problem));
}

function diffPart() {
  const result = el("div", { class: "preview" });
  const one = el("select", { "aria-label": "From" });
  const two = el("select", { "aria-label": "To" });
  const start = button("Compare", () => compare(), { disabled: true });
  const compare = async () => {
    const found = await get("/api/diff", { one: one.value, two: two.value }).catch((problem) => problem);
    fill(result, found instanceof Error ? fault(found) : changeList(found));
  };
  get("/api/batches", { limit: 200 }).then(({ batches }) => {
    const entry = (batch) => el("option", { value: String(batch.version) }, `${when(batch.at)} ${batch.person ?? ""}: ${batch.text}`);
    fill(one, batches.map(entry));
    fill(two, el("option", { value: "" }, "now"), batches.map(entry));
    one.selectedIndex = batches.length - 1;
    start.disabled = batches.length === 0;
  }, () => {});
  return el("section", {}, el("h3", {}, "Difference"), el("div", { class: "row wrap" }, "from the state after", one, "to", two, start), result);
}

function changeList({ changes, counts, total = changes.length }) {
  if (!changes.length) return el("p", { class: "muted" }, "No differences.");
  const summary = Object.entries(counts).map(([what, number]) => `${number.toLocaleString("en")} × ${what}`).join(", ");
  const rows = changes.slice(0, MAX_SHOWN).map((change) => el("li", {}, change.text));
  const more = total > rows.length && el("p", { class: "muted" }, `and ${(total - rows.length).toLocaleString("en")} more`);
  return [el("p", {}, el("strong", {}, count(total, "change")), ` (${summary})`), el("ul", { class: "changes" }, rows), more];
}
