// Actions that a window waits for: it stays open until the answer is there, and shows a refusal itself.

import { act, onChange } from "./model.js";

const waiting = new Map();

onChange((what, detail) => {
  if (what !== "saved" && what !== "refused") return;
  const number = detail.edit.body.edit;
  waiting.get(number)?.(what === "saved" ? { answer: detail.answer } : { problem: detail.problem, conflicts: detail.conflicts });
  queueMicrotask(() => waiting.delete(number)); // others that hear of it still ask whether somebody waits
});

/** Act, and wait for what becomes of it: its answer or its problem. Null if the window is closed before; the page tells then. */
export function actInWindow(dialog, path, body) {
  return new Promise((resolve) => {
    const number = act(path, body);
    waiting.set(number, resolve);
    dialog.addEventListener("close", () => waiting.delete(number) && resolve(null));
  });
}

/** Whether an open window shows what becomes of an edit. */
export const isAwaited = (edit) => waiting.has(edit.body.edit);

/** The preview that holds now, where an action was refused since its own does not any more. */
export const newPreview = ({ conflicts }) => conflicts?.find((conflict) => conflict.what === "preview")?.theirs;
