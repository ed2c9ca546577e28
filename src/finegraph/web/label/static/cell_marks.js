// What stands beside a cell: that it is being saved, that people disagree, that the model or the graph check doubts it,
// and who decided it.

import { el } from "./dom.js";
import { isPending } from "./model.js";

/** Below which probability a value is doubtful. */
const UNSURE = 0.5;

/** The marks of a cell; `doubts` are sentences of the graph check. */
export function cellMarks(cell, doubts, { confidence = false } = {}) {
  const unsure = confidence && cell.confidence !== null && cell.confidence !== undefined && cell.confidence < UNSURE;
  return [
    isPending(cell.fine, cell.kind) && el("span", { class: "mark saving", title: "being saved" }, "…"),
    cell.disagreement && el("span", { class: "mark warn", title: "people disagree" }, "disagree"),
    unsure && el("span", { class: "mark", title: "the probability that the model gives to this, over the photos of the class" }, `model ${Math.round(100 * cell.confidence)} %`),
    doubts.length > 0 && el("span", { class: "mark warn", title: doubts.join("\n") }, "check"),
    cell.version > 0 && el("span", { class: "who", title: cell.by }, cell.by),
  ];
}
