// Dialogs and toasts. Escape closes a dialog, and the focus returns to where it was.

import { button, el } from "/shared/elements.js";

/** Open a dialog with a title; returns its body, a function that closes it, and the dialog. */
export function openDialog(title, { wide = false } = {}) {
  const body = el("div", { class: "dialog-body" });
  const close = () => dialog.close();
  const heading = el("h2", {}, title);
  const dialog = el(
    "dialog",
    { class: wide ? "dialog wide" : "dialog", "aria-label": title },
    el("header", {}, heading, button("×", close, { class: "quiet", "aria-label": "Close" })),
    body,
  );
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  dialog.showModal();
  return { body, close, dialog };
}

/** Whether a dialog is open. */
export const dialogIsOpen = () => document.querySelector("dialog[open]") !== null;

/** Ask for one line of text; resolves to null if the person cancels. */
export function askText(title, label, { value = "", action = "Save", secret = false, hint = "" } = {}) {
  return new Promise((resolve) => {
    const { body, close, dialog } = openDialog(title);
    let answer = null;
    const input = el("input", { type: secret ? "password" : "text", value, autocomplete: "off", maxlength: "200" });
    const form = el(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          answer = input.value.trim() || null;
          if (answer !== null) close();
        },
      },
      el("label", { class: "field" }, el("span", {}, label), input),
      hint && el("p", { class: "hint" }, hint),
      el("footer", {}, button("Cancel", close, { class: "quiet" }), el("button", { type: "submit", class: "primary" }, action)),
    );
    dialog.addEventListener("close", () => resolve(answer));
    body.append(form);
    input.focus();
    input.select();
  });
}

const toasts = () => document.querySelector("#toasts");

/** Show a toast for a few seconds; a fault stays until it is closed. */
export function say(text, { fault = false } = {}) {
  const toast = el("div", { class: fault ? "toast fault" : "toast", role: fault ? "alert" : "status" }, el("span", {}, text));
  toast.append(button("×", () => toast.remove(), { class: "quiet", "aria-label": "Close" }));
  const shown = toasts();
  // A new toast replaces others, except faults.
  for (const other of shown.querySelectorAll(".toast:not(.fault)")) other.remove();
  shown.append(toast);
  if (!fault) setTimeout(() => toast.remove(), 4000);
}
