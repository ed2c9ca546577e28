// Actions that a dialog waits for: it stays open until the response comes, and shows a refusal itself.

import { act, onChange } from "./model.js";

const waiting = new Map();

onChange((what, detail) => {
  if (what !== "saved" && what !== "refused") return;
  const number = detail.edit.body.edit;
  waiting.get(number)?.(what === "saved" ? { answer: detail.answer } : { problem: detail.problem, conflicts: detail.conflicts });
  queueMicrotask(() => waiting.delete(number)); // other listeners still call `isAwaited`
});

/** Act and wait for the answer or the problem; null if the dialog is closed before, and then the page shows the outcome. */
export function actInDialog(dialog, path, body) {
  return new Promise((resolve) => {
    const number = act(path, body);
    waiting.set(number, resolve);
    dialog.addEventListener("close", () => waiting.delete(number) && resolve(null));
  });
}

/** Whether an open dialog shows the outcome of an edit. */
export const isAwaited = (edit) => waiting.has(edit.body.edit);

/** The current preview, if an action was refused because its preview was out of date. */
export const newPreview = ({ conflicts }) => conflicts?.find((conflict) => conflict.what === "preview")?.theirs;
