// The marks of a cell: it is being saved, people disagree, the model is unsure, the graph check has findings, and who
// decided it.

import { el } from "/shared/elements.js";
import { isPending } from "./model.js";

/** Below this probability the model is unsure. */
const MIN_CONFIDENCE = 0.5;

/** The marks of a cell; `findings` are messages of the graph check. */
export function cellMarks(cell, findings, { confidence = false } = {}) {
  const unsure = confidence && cell.confidence !== null && cell.confidence !== undefined && cell.confidence < MIN_CONFIDENCE;
  return [
    isPending(cell.fine, cell.kind) && el("span", { class: "mark saving", title: "being saved" }, "…"),
    cell.disagreement && el("span", { class: "mark warn", title: "people disagree" }, "disagree"),
    unsure && el("span", { class: "mark", title: "the probability of this label by the model, over the photos of the class" }, `model ${Math.round(100 * cell.confidence)} %`),
    findings.length > 0 && el("span", { class: "mark warn", title: findings.join("\n") }, "check"),
    cell.version > 0 && el("span", { class: "who", title: cell.by }, cell.by),
  ];
}
