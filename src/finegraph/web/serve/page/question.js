// The next question: the one with the largest expected gain, with that gain. An answer becomes evidence like any other;
// "I don't know" moves on to the next question.

import { byId, el } from "/shared/elements.js";
import { findAnother, hasField } from "./kinds.js";
import { percent } from "./probabilities.js";

const MAX_CHOICES = 4;
const MIN_PROBABILITY = 0.01;
let skipped = new Set();
let asked = null; // the kind of the last question on this photo

/** Start over, for another photo. */
export function resetQuestions() {
  skipped = new Set();
  asked = null;
}

/** Show the first question that was not skipped; its answer is added to `evidence`. */
export function showQuestion(prediction, evidence) {
  const section = byId("question");
  const key = section.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const question = prediction.questions.find(({ kind }) => !skipped.has(kind));
  section.hidden = !question && asked === null;
  if (section.hidden) return;
  const redraw = () => showQuestion(prediction, evidence);
  section.replaceChildren(...(question ? parts(question, prediction, evidence, redraw) : noQuestion(prediction, redraw)));
  asked = question?.kind ?? asked;
  if (key !== null) (section.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? section.querySelector("button"))?.focus();
}

function parts(question, prediction, evidence, redraw) {
  const skip = () => {
    skipped.add(question.kind);
    redraw();
  };
  const answer = (label) => evidence.setOnly(question.kind, label);
  const limit = (sign) => evidence.setOnly(question.kind, [...evidence.labels(question.kind), `${sign} ${question.above}`].join(" and "));
  const choices = question.above !== null
    ? [button("yes", "Yes", () => limit(">")), button("no", "No", () => limit("<="))]
    : question.binary
    ? [button("yes", "Yes", () => answer("yes")), button("no", "No", () => answer("no"))]
    : (prediction.kinds[question.kind] ?? [])
        .filter(({ probability }) => probability >= MIN_PROBABILITY)
        .slice(0, MAX_CHOICES)
        .map(({ label, probability }) => button(`label ${label}`, label, () => answer(label), percent(probability)));
  if (question.above !== null) choices.push(button("another", "Enter a range…", () => findAnother(question.kind)));
  else if (!question.binary && hasField(question.kind)) {
    choices.push(button("another", "Another one…", () => findAnother(question.kind)));
  }
  choices.push(button("skip", "I don’t know", skip));
  return [
    el("h2", { textContent: "What would help most" }),
    el("p", { className: "ask", textContent: question.text }),
    el("p", { className: "effect", textContent: effect(question) }),
    el("div", { className: question.binary ? "answers of-yes" : "answers" }, ...choices),
  ];
}

/** The expected gain of an answer, as a sentence. */
function effect({ before, after, settles }) {
  const lift = `Knowing it raises the best label from ${percent(before)} to ${percent(after)} on average`;
  return settles < 0.005 ? `${lift}.` : `${lift}, and decides it with a probability of ${percent(settles)}.`;
}

function noQuestion(prediction, redraw) {
  const skippedAny = prediction.questions.length > 0;
  const words = skippedAny ? "You skipped every question that would help." : "Nothing is left to ask that would help.";
  const ask = () => {
    skipped = new Set();
    redraw();
  };
  return [
    el("h2", { textContent: "What would help most" }),
    el("p", { className: "ask", textContent: words }),
    ...(skippedAny ? [el("div", { className: "answers" }, button("again", "Ask again", ask))] : []),
  ];
}

function button(key, words, onAnswer, value = null) {
  const onclick = (event) => event.detail < 2 && onAnswer(); // the second click of a double click belongs to the previous question
  return el(
    "button",
    { type: "button", "data-key": key, onclick },
    el("span", { textContent: words, title: words }),
    value === null ? null : el("span", { className: "value", textContent: value }),
  );
}
