// Accepting many suggestions at once: they are listed with their reasons, taken as one action, undone as one.

import { get } from "./api.js";
import { button, count, el, fill } from "./dom.js";
import { openDialog } from "./dialogs.js";
import { act, kindNamed, namedCell } from "./model.js";
import { inWords, namesNewLabel } from "./values.js";

const MAX_SUGGESTIONS = 1000;

/** Whether a suggestion names a label that its kind does not have yet. */
const isNewLabel = ({ kind, value }) => namesNewLabel(kindNamed(kind), value);

/** List suggestions of a class (`fine`) or a kind (`kind`) and accept those that are ticked. */
export async function openSuggestions(scope) {
  const { body, close } = openDialog(`Suggestions for ${scope.fine ?? scope.kind}`, { wide: true });
  const list = el("div", { class: "suggestion-list" });
  const taken = new Map();
  const accept = button("", () => take(), { class: "primary" });
  const tell = () => {
    accept.textContent = `Accept ${count(taken.size, "suggestion")}`;
    accept.disabled = taken.size === 0;
  };
  const take = () => {
    const all = [...taken.values()];
    const kept = all.filter(({ number }) => number !== null);
    act("/api/accept", { suggestions: Object.fromEntries(kept.map((one) => [one.number, one.seen])), named: all.filter(({ number }) => number === null).map(namedCell) });
    close();
  };
  const draw = async (least) => {
    const { rows, total } = await get("/api/suggestions", { ...scope, least, limit: MAX_SUGGESTIONS });
    taken.clear();
    const boxes = new Map(); // one value per cell: the best one is ticked, others can be ticked instead
    const lines = rows.map((one) => {
      const place = `${one.fine}\u0000${one.kind}`;
      const first = !boxes.has(place) && !one.contradicts;
      if (first) taken.set(idOf(one), one);
      const others = boxes.get(place) ?? boxes.set(place, new Map()).get(place);
      return line(one, first, taken, others, tell);
    });
    const more = total > rows.length && el("p", { class: "muted" }, `The first ${MAX_SUGGESTIONS} of ${total.toLocaleString("en")}; the others come after these.`);
    fill(list, lines.length ? lines : el("p", { class: "muted" }, "There are no suggestions."), more);
    tell();
  };
  const slider = el("input", { type: "range", min: "0", max: "1", step: "0.05", value: "0", "aria-label": "Least score" });
  const shown = el("output", {}, "0 %");
  slider.addEventListener("input", () => (shown.textContent = `${Math.round(100 * slider.value)} %`));
  slider.addEventListener("change", () => draw(slider.value));
  fill(
    body,
    el("label", { class: "row" }, "At least", slider, shown, el("span", { class: "muted" }, "Those that contradict a label are not ticked.")),
    list,
    el("footer", {}, button("Cancel", close, { class: "quiet" }), accept),
  );
  await draw(0);
  accept.focus();
}

/** What a suggestion is told from others by; one from a name has no number. */
const idOf = ({ number, fine, kind, text }) => number ?? JSON.stringify([fine, kind, text]);

/** A suggestion with its box; `others` are the boxes of the same cell, of which one is ticked at the most. */
function line(one, first, taken, others, tell) {
  const box = el("input", { type: "checkbox", checked: first });
  others.set(idOf(one), box);
  box.addEventListener("change", () => {
    for (const [id, other] of others) {
      if (other === box && box.checked) continue;
      other.checked = false;
      taken.delete(id);
    }
    if (box.checked) taken.set(idOf(one), one);
    tell();
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
