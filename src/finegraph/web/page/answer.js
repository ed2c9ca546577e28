// The answer: the sentence, the bars, and why the first beats the second; or that it is on its way. A screen reader is
// told by one element that is always there: what only now comes into sight is not read out by all of them.

import { byId, el, percent, short } from "./dom.js";

const WEAK = 0.05; // log odds below this are no reason
const MOST_REASONS = 6;

export function showAnswer(prediction) {
  const [, first, rest] = /^(.*); ((?:surely|nothing) .*)$/s.exec(prediction.words) ?? [null, prediction.words, ""];
  byId("sentence").replaceChildren(first, rest ? el("span", { className: "rest", textContent: capital(rest) }) : "");
  byId("unknown").hidden = !prediction.unknown?.is_unknown;
  byId("top").replaceChildren(
    ...prediction.top.map(({ label, probability }) =>
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
  byId("status").textContent = prediction.words;
}

/** Take away what is said of a photo. */
export function hideAnswer() {
  for (const id of ["waiting", "result", "why", "similar"]) byId(id).hidden = true;
  byId("status").textContent = "";
}

/** In the place of the answer to the photo before: that this one is looked at. */
export function showWaiting() {
  hideAnswer();
  byId("waiting").hidden = false;
  byId("status").textContent = byId("waiting").querySelector("p").textContent;
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
  const strong = explanation.parts.filter((part) => Math.abs(part.value) >= WEAK).slice(0, MOST_REASONS);
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
  return told ? `what you told of ${words}` : words;
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
