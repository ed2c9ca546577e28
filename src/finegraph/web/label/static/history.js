// The history of a cell, of the note of its class and of the labels of its photos: who and when, each with an undo.

import { button, el, fill } from "/shared/elements.js";
import { openDialog } from "./dialogs.js";
import { changeText, fullText } from "./edit_text.js";
import { get } from "./label_api.js";
import { act, model } from "./model.js";
import { count, when } from "./texts.js";

const PAGE = 100;

/** Show the history of a cell, with tabs for the note and the photos of the class. */
export async function showHistory(fine, kind) {
  const { body, close } = openDialog(`History of ${fine}`);
  const menu = el("div", { class: "tabs", role: "tablist" });
  const list = el("div", { class: "history-list" });
  fill(body, menu, list);
  const parts = {
    cell: { title: kind, query: { fine, kind, target: "cell" }, none: `Nobody has changed ${kind} of this class since the import.` },
    note: { title: "Note", query: { fine, target: "note" }, none: "Nobody has written a note." },
    photo: { title: "Photos", query: { fine, kind, target: "photo" }, none: `No photo of this class has a label of its own in ${kind}.` },
  };
  const names = Object.keys(parts).filter((name) => name !== "photo" || model.photos);
  const open = (name) => {
    const tabs = names.map((other) =>
      el("button", { type: "button", role: "tab", "aria-selected": String(other === name), onclick: () => open(other) }, parts[other].title),
    );
    menu.replaceChildren(...tabs);
    return load(parts[name], list, close);
  };
  await open("cell");
}

/** Show all edits of an action. */
export async function showAction({ number, text, count: edits }) {
  const { body, close } = openDialog(text, { wide: true });
  const list = el("div", { class: "history-list" });
  fill(body, el("p", { class: "muted" }, count(edits, "change")), list);
  await load({ query: { batch: number }, none: "Nothing was changed.", line: (edit) => el("li", {}, fullText(edit)) }, list, close);
}

/** Load the edits of a part and draw them, page by page. */
async function load({ query, none, line = lineOf }, list, close) {
  const rows = el("ol", { class: "history" });
  const foot = el("div", {});
  const next = async (before) => {
    fill(foot, el("p", { class: "muted" }, "Loading …"));
    const found = await get("/api/history", { ...query, before, limit: PAGE }).catch((problem) => problem);
    if (found instanceof Error) return fill(foot, el("p", { class: "fault", role: "alert" }, `${found.message}. `, button("Try again", () => next(before), { class: "small" })));
    rows.append(...found.edits.map((edit) => line(edit, close)));
    const more = found.edits.length === PAGE && button("Show more", () => next(found.edits.at(-1).number), { class: "quiet" });
    fill(foot, more, !rows.children.length && el("p", { class: "muted" }, none));
  };
  fill(list, rows, foot);
  await next();
}

function lineOf(edit, close) {
  const undo = button("Undo", () => {
    act("/api/undo", { number: edit.number });
    close();
  }, { class: "small" });
  return el(
    "li",
    { class: edit.undone ? "undone" : "" },
    el("div", {}, el("strong", {}, edit.person ?? "–"), el("span", { class: "muted" }, ` ${when(edit.at)} · ${edit.action}`)),
    el("div", { class: "row" }, el("span", {}, edit.target === "photo" && `${edit.photo}: `, changeText(edit)), edit.undone ? el("span", { class: "muted" }, "undone") : edit.undoes === null && undo),
  );
}
