// The answer: a sentence, bars, and why the first label is more probable than the second; or a note that it is being
// computed. The status element announces it, since some screen readers ignore elements that have just appeared.

import { byId, el } from "/shared/elements.js";
import { showGlance } from "./glance.js";
import { limitWords, withSign } from "./numbers.js";
import { chanceText, percent, truncate } from "./probabilities.js";

const SHOWN = 6;
const MIN_LOG_ODDS = 0.05; // smaller parts are not listed as reasons
const MAX_REASONS = 6;

/** Show a prediction with its evidence; `copies` are the copies of the photo in the index. */
export function showAnswer(prediction, evidence, copies) {
  const isContradicted = prediction.contradicts_photo;
  const [, first, rest] = /^(.*); ((?:surely|nothing|but) .*)$/s.exec(prediction.words) ?? [null, prediction.words, ""];
  const second = el("span", { className: isContradicted ? "rest against" : "rest", textContent: capital(rest) });
  byId("sentence").replaceChildren(first, rest ? second : "");
  const [best] = prediction.top;
  showGlance(`${best.label.replace(" @ ", " at ")}, ${percent(best.probability)}`, capital(rest), isContradicted);
  showEvidence(evidence, prediction.numbers);
  showEvidenceProbability(prediction);
  showCopies(copies ?? []);
  byId("unknown").hidden = !prediction.unknown?.is_unknown;
  byId("top").replaceChildren(
    ...prediction.top.slice(0, SHOWN).map(({ label, probability }) =>
      el(
        "li",
        {},
        el("span", { className: "name", textContent: label, title: label }),
        el("span", { className: "value", textContent: percent(probability) }),
        el("span", { className: "bar", style: { "--share": probability }, "aria-hidden": "true" }),
      ),
    ),
  );
  showWhy(prediction.explanation, prediction.numbers);
  byId("waiting").hidden = true;
  byId("result").hidden = false;
  byId("beside").hidden = false;
  byId("status").textContent = prediction.words;
}

/** Hide the answer. */
export function hideAnswer() {
  for (const id of ["waiting", "result", "beside", "why", "similar", "glance"]) byId(id).hidden = true;
  byId("status").textContent = "";
}

/** Show a note in place of the answer until it comes. */
export function showWaiting() {
  hideAnswer();
  byId("waiting").hidden = false;
  byId("status").textContent = byId("waiting").querySelector("p").textContent;
}

/** The evidence, with a button to remove each part. */
function showEvidence(evidence, numbers) {
  const row = byId("evidence");
  const place = [...row.children].indexOf(document.activeElement);
  const chips = evidence.entries.map(([kind, labels]) => {
    const number = numbers?.[kind];
    const words = `${kind}: ${number ? limitWords(labels[0], number.unit) : labels.join(" or ")}`;
    return el(
      "button",
      { type: "button", "data-key": `evidence: ${kind}`, "aria-label": `Remove ${words}`, onclick: () => evidence.clearKind(kind) },
      el("span", { textContent: words }),
      el("span", { "aria-hidden": "true", textContent: "×" }),
    );
  });
  const all = { type: "button", className: "clear", "data-key": "all", onclick: () => evidence.clear() };
  if (chips.length > 1) chips.push(el("button", { ...all, textContent: "Remove all" }));
  row.replaceChildren(...chips);
  if (place >= 0) (row.children[place] ?? row.lastElementChild ?? byId("kind-list").querySelector("button"))?.focus();
}

/** Show how probable the evidence is from the photo alone. */
function showEvidenceProbability({ evidence_probability: probability, contradicts_photo: isContradicted }) {
  const hasEvidence = probability !== null;
  byId("alone").hidden = !hasEvidence;
  if (!hasEvidence) return;
  byId("alone").className = isContradicted ? "alone note" : "alone";
  byId("alone").textContent = isContradicted
    ? "The photo contradicts what you entered. The answer is valid only if that is correct."
    : `From the photo alone, the probability of what you entered is ${chanceText(probability)}.`;
}

/** Show the labels of the copies of the photo in the index. */
function showCopies(copies) {
  const names = [...new Set(copies.map(({ label, guess }) => label ?? (guess === null ? "one without a label" : `one without a label, perhaps ${guess}`)))];
  byId("stored").hidden = names.length === 0;
  byId("stored").replaceChildren("This photo is in the index as ", ...names.flatMap((name, number) => [number ? " and as " : "", el("b", { textContent: truncate(name) })]), ".");
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function showWhy(explanation, numbers) {
  const section = byId("why");
  section.hidden = false;
  const heading = el("h2", { textContent: "Why" });
  if (!explanation) {
    section.replaceChildren(heading, el("p", { textContent: "No other label is possible, so there is nothing to compare it with." }));
    return;
  }
  const strong = explanation.parts.filter((part) => Math.abs(part.value) >= MIN_LOG_ODDS).slice(0, MAX_REASONS);
  const rest = explanation.log_odds - strong.reduce((sum, part) => sum + part.value, 0);
  const rows = strong.map((part) => [reason(part, numbers), part.value]);
  if (strong.length && Math.abs(rest) >= MIN_LOG_ODDS) rows.push(["all else together", rest]);
  const largest = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-9);
  const list = el("ol", { className: "reasons" }, ...rows.map(([words, value]) =>
    el(
      "li",
      {},
      el("span", { textContent: words }),
      el("span", { className: "value", textContent: factor(value), title: `log odds ${value.toFixed(2)}` }),
      el("span", { className: value < 0 ? "lean less" : "lean", style: { "--share": Math.abs(value) / largest }, "aria-hidden": "true" }),
    ),
  ));
  const words = el("p", {}, el("b", { textContent: truncate(explanation.first) }), ` is ${times(explanation.log_odds)} as probable as `, el("b", { textContent: truncate(explanation.second) }), rows.length ? ":" : ", for no single reason.");
  section.replaceChildren(heading, words, list);
}

function reason(part, numbers) {
  if (part.source === "fine") return "the label itself";
  const isEvidence = part.source.startsWith("evidence: ");
  const name = part.source.replace("evidence: ", "");
  let words = name.replace(": ", " ");
  if (part.first && part.second && words !== "fine") {
    const [first, second] = [part.first, part.second].map((text) => (numbers?.[name] ? withSign(text) : text));
    words += first === second ? `: ${first}` : `: ${first} rather than ${second}`;
  } else if (part.several) words += ", one of several or unknown";
  return isEvidence ? `your entry for ${words}` : words;
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
