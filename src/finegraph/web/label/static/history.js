// The history of one cell: every edit with who and when, each of which can be undone.

import { get } from "./api.js";
import { button, el, fill, when } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { act } from "./model.js";
import { inWords } from "./values.js";

/** Show what happened to a cell. */
export async function showHistory(fine, kind) {
  const { body, close } = openDialog(`${fine}: ${kind}`);
  body.append(el("p", { class: "muted" }, "Loading …"));
  const { edits } = await get("/api/history", { fine, kind }).catch((problem) => ({ edits: [], problem }));
  const rows = edits.map((edit) => {
    const undo = button("Undo", () => {
      act("/api/undo", { number: edit.number });
      close();
    }, { class: "small" });
    const told = edit.target === "cell" ? `${inWords(edit.before)} → ${inWords(edit.after)}` : edit.text;
    return el(
      "li",
      { class: edit.undone ? "undone" : "" },
      el("div", {}, el("strong", {}, edit.person ?? "–"), el("span", { class: "muted" }, ` ${when(edit.at)} · ${edit.action}`)),
      el("div", { class: "row" }, el("span", {}, told), edit.undone ? el("span", { class: "muted" }, "undone") : edit.target === "cell" && edit.undoes === null && undo),
    );
  });
  fill(body, rows.length ? el("ol", { class: "history" }, rows) : el("p", { class: "muted" }, "Nobody has changed this cell since it was imported."));
}
