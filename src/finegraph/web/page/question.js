// What to ask next: the one question that is expected to tell the labels apart soonest, with what it is expected to do.
// An answer is told like any other; "I don't know" goes on to the next question.

import { byId, el, percent } from "./dom.js";
import { findAnother, hasField } from "./kinds.js";

const MAX_CHOICES = 4;
const LEAST = 0.01;
let skipped = new Set();
let asked = null; // the kind that was asked for last, of this photo

/** Another photo: nothing was asked or skipped yet. */
export function forgetQuestions() {
  skipped = new Set();
  asked = null;
}

/** Ask what helps most of what was not skipped; `known` is told the answer. */
export function showQuestion(prediction, known) {
  const section = byId("question");
  const key = section.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const question = prediction.questions.find(({ kind }) => !skipped.has(kind));
  section.hidden = !question && asked === null;
  if (section.hidden) return;
  const again = () => showQuestion(prediction, known);
  section.replaceChildren(...(question ? parts(question, prediction, known, again) : nothing(prediction, again)));
  asked = question?.kind ?? asked;
  if (key !== null) (section.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? section.querySelector("button"))?.focus();
}

function parts(question, prediction, known, again) {
  const skip = () => {
    skipped.add(question.kind);
    again();
  };
  const tell = (label) => known.tell(question.kind, label);
  const limit = (sign) => known.tell(question.kind, [...known.labels(question.kind), `${sign} ${question.above}`].join(" and "));
  const choices = question.above !== null
    ? [button("yes", "Yes", () => limit(">")), button("no", "No", () => limit("<="))]
    : question.binary
    ? [button("yes", "Yes", () => tell("yes")), button("no", "No", () => tell("no"))]
    : (prediction.kinds[question.kind] ?? [])
        .filter(({ probability }) => probability >= LEAST)
        .slice(0, MAX_CHOICES)
        .map(({ label, probability }) => button(`label ${label}`, label, () => tell(label), percent(probability)));
  if (question.above !== null) choices.push(button("another", "Say its range…", () => findAnother(question.kind)));
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

/** What the answer is expected to do. */
function effect({ before, after, settles }) {
  const lift = `Knowing it takes the best label from ${percent(before)} to ${percent(after)} on average`;
  return settles < 0.005 ? `${lift}.` : `${lift}, and settles it with a probability of ${percent(settles)}.`;
}

function nothing(prediction, again) {
  const skippedAny = prediction.questions.length > 0;
  const words = skippedAny ? "You skipped every question that would help." : "Nothing is left to ask that would help.";
  const ask = () => {
    skipped = new Set();
    again();
  };
  return [
    el("h2", { textContent: "What would help most" }),
    el("p", { className: "ask", textContent: words }),
    ...(skippedAny ? [el("div", { className: "answers" }, button("again", "Ask again", ask))] : []),
  ];
}

function button(key, words, told, value = null) {
  const onclick = (event) => event.detail < 2 && told(); // the second half of a double tap is for the question before
  return el(
    "button",
    { type: "button", "data-key": key, onclick },
    el("span", { textContent: words, title: words }),
    value === null ? null : el("span", { className: "value", textContent: value }),
  );
}
