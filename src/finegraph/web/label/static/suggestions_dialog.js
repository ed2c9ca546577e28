// Accepting many suggestions at once: they are listed with their reasons, and accepted as one action.

import { button, el, fill } from "/shared/elements.js";
import { openDialog } from "./dialogs.js";
import { get } from "./label_api.js";
import { act, kindNamed, namedCell } from "./model.js";
import { count } from "./texts.js";
import { inWords, namesNewLabel } from "./values.js";

const MAX_SUGGESTIONS = 1000;

/** Whether the label of a suggestion is new to its kind. */
const isNewLabel = ({ kind, value }) => namesNewLabel(kindNamed(kind), value);

/** List the suggestions for a class (`fine`) or a kind (`kind`) and accept the selected ones. */
export async function openSuggestions(scope) {
  const { body, close } = openDialog(`Suggestions for ${scope.fine ?? scope.kind}`, { wide: true });
  const list = el("div", { class: "suggestion-list" });
  const selected = new Map();
  const accept = button("", () => acceptSelected(), { class: "primary" });
  const showCount = () => {
    accept.textContent = `Accept ${count(selected.size, "suggestion")}`;
    accept.disabled = selected.size === 0;
  };
  const acceptSelected = () => {
    const all = [...selected.values()];
    const stored = all.filter(({ number }) => number !== null);
    act("/api/accept", { suggestions: Object.fromEntries(stored.map((one) => [one.number, one.seen])), named: all.filter(({ number }) => number === null).map(namedCell) });
    close();
  };
  const draw = async (minScore) => {
    const { rows, total } = await get("/api/suggestions", { ...scope, least: minScore, limit: MAX_SUGGESTIONS });
    selected.clear();
    const boxes = new Map(); // one value per cell: the best one is selected, others can be selected instead
    const lines = rows.map((one) => {
      const place = `${one.fine}\u0000${one.kind}`;
      const first = !boxes.has(place) && !one.contradicts;
      if (first) selected.set(idOf(one), one);
      const others = boxes.get(place) ?? boxes.set(place, new Map()).get(place);
      return line(one, first, selected, others, showCount);
    });
    const more = total > rows.length && el("p", { class: "muted" }, `The first ${MAX_SUGGESTIONS} of ${total.toLocaleString("en")}; accept these to see the others.`);
    fill(list, lines.length ? lines : el("p", { class: "muted" }, "There are no suggestions."), more);
    showCount();
  };
  const slider = el("input", { type: "range", min: "0", max: "1", step: "0.05", value: "0", "aria-label": "Minimum score" });
  const shown = el("output", {}, "0 %");
  slider.addEventListener("input", () => (shown.textContent = `${Math.round(100 * slider.value)} %`));
  slider.addEventListener("change", () => draw(slider.value));
  fill(
    body,
    el("label", { class: "row" }, "At least", slider, shown, el("span", { class: "muted" }, "Those that contradict a label are not selected.")),
    list,
    el("footer", {}, button("Cancel", close, { class: "quiet" }), accept),
  );
  await draw(0);
  accept.focus();
}

/** The identity of a suggestion; one that is derived from a name has no number. */
const idOf = ({ number, fine, kind, text }) => number ?? JSON.stringify([fine, kind, text]);

/** A suggestion with its checkbox; `others` are the checkboxes of the same cell, of which at most one is checked. */
function line(one, first, selected, others, showCount) {
  const box = el("input", { type: "checkbox", checked: first });
  others.set(idOf(one), box);
  box.addEventListener("change", () => {
    for (const [id, other] of others) {
      if (other === box && box.checked) continue;
      other.checked = false;
      selected.delete(id);
    }
    if (box.checked) selected.set(idOf(one), one);
    showCount();
  });
  const now = one.contradicts && el("span", { class: "mark warn" }, `now ${inWords(one.current)}`);
  return el(
    "label",
    { class: "suggestion-line" },
    box,
    el("span", { class: "what" }, el("strong", {}, one.fine), el("span", {}, `${one.kind}: ${inWords(one.value)} `, isNewLabel(one) && el("span", { class: "mark" }, "new label")), now),
    el("span", { class: "reason" }, one.reason),
    el("span", { class: "muted score" }, `${Math.round(100 * one.score)} %`),
  );
}
