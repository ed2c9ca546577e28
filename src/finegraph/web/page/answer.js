// The answer: a sentence, bars, and why the first label beats the second; or a note that it is being computed. One
// element that is always in the page announces it, since some screen readers ignore elements that have just appeared.

import { byId, chance, el, percent, short } from "./dom.js";
import { showGlance } from "./glance.js";

const SHOWN = 6;
const WEAK = 0.05; // log odds below this are no reason
const MAX_REASONS = 6;

/** Say what is on the photo; `known` is the evidence, and `copies` are the copies of this photo in the index. */
export function showAnswer(prediction, known, copies) {
  const against = prediction.contradicts_photo;
  const [, first, rest] = /^(.*); ((?:surely|nothing|but) .*)$/s.exec(prediction.words) ?? [null, prediction.words, ""];
  const second = el("span", { className: against ? "rest against" : "rest", textContent: capital(rest) });
  byId("sentence").replaceChildren(first, rest ? second : "");
  const [best] = prediction.top;
  showGlance(`${best.label.replace(" @ ", " at ")}, ${percent(best.probability)}`, capital(rest), against);
  showKnown(known);
  showAlone(prediction);
  showStored(copies ?? []);
  byId("unknown").hidden = !prediction.unknown?.is_unknown;
  byId("top").replaceChildren(
    ...prediction.top.slice(0, SHOWN).map(({ label, probability }) =>
      el(
        "li",
        {},
        el("span", { className: "name", textContent: label, title: label }),
        el("span", { className: "value", textContent: percent(probability) }),
        el("span", { className: "bar", share: probability, "aria-hidden": "true" }),
      ),
    ),
  );
  showWhy(prediction.explanation);
  byId("waiting").hidden = true;
  byId("result").hidden = false;
  byId("beside").hidden = false;
  byId("status").textContent = prediction.words;
}

/** Take away what is said of a photo. */
export function hideAnswer() {
  for (const id of ["waiting", "result", "beside", "why", "similar", "glance"]) byId(id).hidden = true;
  byId("status").textContent = "";
}

/** In the place of the answer to the photo before: that this one is looked at. */
export function showWaiting() {
  hideAnswer();
  byId("waiting").hidden = false;
  byId("status").textContent = byId("waiting").querySelector("p").textContent;
}

/** The evidence, with a button to remove each part. */
function showKnown(known) {
  const row = byId("known");
  const place = [...row.children].indexOf(document.activeElement);
  const told = known.entries.map(([kind, labels]) => {
    const words = `${kind}: ${labels.join(" or ")}`;
    return el(
      "button",
      { type: "button", "data-key": `told: ${kind}`, "aria-label": `Take back ${words}`, onclick: () => known.forget(kind) },
      el("span", { textContent: words }),
      el("span", { "aria-hidden": "true", textContent: "×" }),
    );
  });
  const all = { type: "button", className: "clear", "data-key": "all", onclick: () => known.clear() };
  if (told.length > 1) told.push(el("button", { ...all, textContent: "Take all back" }));
  row.replaceChildren(...told);
  if (place >= 0) (row.children[place] ?? row.lastElementChild ?? byId("kind-list").querySelector("button"))?.focus();
}

/** The probability of the evidence by the photo alone, unless the sentence says it already. */
function showAlone({ evidence_probability: probability, contradicts_photo: against }) {
  const told = probability !== null;
  byId("alone").hidden = !told;
  if (!told) return;
  byId("alone").className = against ? "alone note" : "alone";
  byId("alone").textContent = against
    ? `The photo speaks against what you said. The answer holds only if that is true.`
    : `The photo alone gave what you said ${chance(probability)}.`;
}

/** That the photo is in the index already, and as what. */
function showStored(copies) {
  const names = [...new Set(copies.map(({ label, guess }) => label ?? (guess === null ? "one without a label" : `one without a label, perhaps ${guess}`)))];
  byId("stored").hidden = names.length === 0;
  byId("stored").replaceChildren("This photo is in the index as ", ...names.flatMap((name, number) => [number ? " and as " : "", el("b", { textContent: short(name) })]), ".");
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function showWhy(explanation) {
  const section = byId("why");
  section.hidden = false;
  const heading = el("h2", { textContent: "Why" });
  if (!explanation) {
    section.replaceChildren(heading, el("p", { textContent: "No other label is possible, so there is nothing to compare it with." }));
    return;
  }
  const strong = explanation.parts.filter((part) => Math.abs(part.value) >= WEAK).slice(0, MAX_REASONS);
  const rest = explanation.log_odds - strong.reduce((sum, part) => sum + part.value, 0);
  const rows = strong.map((part) => [reason(part), part.value]);
  if (strong.length && Math.abs(rest) >= WEAK) rows.push(["all else together", rest]);
  const largest = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-9);
  const list = el("ol", { className: "reasons" }, ...rows.map(([words, value]) =>
    el(
      "li",
      {},
      el("span", { textContent: words }),
      el("span", { className: "value", textContent: factor(value), title: `log odds ${value.toFixed(2)}` }),
      el("span", { className: value < 0 ? "lean less" : "lean", share: Math.abs(value) / largest, "aria-hidden": "true" }),
    ),
  ));
  const words = el("p", {}, el("b", { textContent: short(explanation.first) }), ` is ${times(explanation.log_odds)} as probable as `, el("b", { textContent: short(explanation.second) }), rows.length ? ":" : ", for no single reason.");
  section.replaceChildren(heading, words, list);
}

function reason(part) {
  if (part.source === "fine") return "the label itself";
  const told = part.source.startsWith("evidence: ");
  let words = part.source.replace("evidence: ", "").replace(": ", " ");
  if (part.first && part.second && words !== "fine") {
    words += part.first === part.second ? `: ${part.first}` : `: ${part.first} rather than ${part.second}`;
  } else if (part.several) words += ", one of several or unknown";
  return told ? `what you said of ${words}` : words;
}

function factor(value) {
  if (Math.abs(value) > Math.log(10000)) return value > 0 ? "× over 10,000" : "× under 0.0001";
  const odds = Math.exp(value);
  return `× ${odds >= 100 ? Math.round(odds).toLocaleString("en") : Number(odds.toPrecision(2))}`;
}

function times(logOdds) {
  if (logOdds < Math.log(1.05)) return "about";
  if (logOdds > Math.log(10000)) return "over 10,000 times";
  const odds = Math.exp(logOdds);
  return `${odds >= 10 ? Math.round(odds).toLocaleString("en") : odds.toFixed(1)} times`;
}
