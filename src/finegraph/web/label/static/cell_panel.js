// The details of one cell: decisions of people, suggestions with reasons, findings, and the progress of the kind.

import { button, el, fill } from "/shared/elements.js";
import { showHistory } from "./history.js";
import { bindings, keyName, withKey } from "./keys.js";
import { cellOf, progressOf, shownValue } from "./model.js";
import { orderButton } from "./options.js";
import { count, percentOf, when } from "./texts.js";
import { inWords, namesNewLabel, same } from "./values.js";

/** The source of a value. */
function source(cell, value) {
  if (cell.version > 0 && cell.by) return `${cell.by}, ${when(cell.at)}`;
  return value === null ? "Nobody has decided this yet" : "From the imported file";
}

/** Photos of the most similar classes with the suggested label, as the reason of a suggestion. */
function alikePhotos({ alike = [] }) {
  const shown = alike.map(({ fine, number }) =>
    el("figure", {}, el("img", { src: `/photos/${number}/small`, alt: "", loading: "lazy" }), el("figcaption", {}, fine)),
  );
  return shown.length > 0 && el("div", { class: "alike" }, shown);
}

export class CellPanel {
  constructor(view) {
    this.view = view;
    this.root = el("aside", { class: "cell-panel", "aria-label": "This kind of this class" });
  }

  draw() {
    const { view } = this;
    if (!view.kind) return fill(this.root);
    const { fine } = view.row;
    const cell = cellOf(fine, view.kind.name);
    fill(
      this.root,
      this.heading(cell, shownValue(fine, view.kind.name)),
      orderButton(view.toggleOrder),
      this.votes(cell),
      this.suggestions(view.row.suggestions.filter((one) => one.kind === view.kind.name)),
      view.row.suggestions.length > 0 && button(withKey("All suggestions", "acceptAll"), () => view.actions.acceptAll(), { class: "quiet" }),
      this.findings(view.row.findings.filter(({ kind, rule }) => [view.kind.name, null].includes(kind) && rule !== "mostly-unknown")),
      button(withKey("History", "history"), () => showHistory(fine, view.kind.name), { class: "quiet" }),
    );
  }

  heading(cell, value) {
    const progress = progressOf(cell.kind);
    const known = progress?.known ?? 0;
    return el(
      "div",
      { class: "panel-head" },
      el("h2", {}, cell.kind),
      el("p", { class: value === null ? "value muted" : "value" }, inWords(value)),
      el("p", { class: "muted" }, source(cell, value)),
      progress && el("progress", { max: progress.total, value: known, "aria-label": "known classes" }),
      progress && el("p", { class: "muted" }, `${percentOf(known, progress.total)} known, ${count(progress.unknown, "class", "classes")} left`),
    );
  }

  votes(cell) {
    const people = Object.entries(cell.votes ?? {});
    if (!people.length) return null;
    const rows = people.map(([who, value]) =>
      el(
        "li",
        { class: same(value, cell.value) ? "vote" : "vote other" },
        el("span", { class: "who" }, who),
        el("span", { class: "vote-value" }, inWords(value)),
        cell.disagreement && button("Settle on this", () => this.view.resolve(value), { class: "small" }),
      ),
    );
    const title = cell.disagreement ? "People disagree" : cell.resolved ? "Settled" : "Decided by";
    const hint = cell.disagreement && el("p", { class: "hint" }, `${keyName(bindings().resolve)} settles it with the shown value.`);
    return el("section", { class: cell.disagreement ? "votes warn" : "votes" }, el("h3", {}, title), el("ul", {}, rows), hint);
  }

  suggestions(found) {
    if (!found.length) return null;
    const rows = found.map((one, index) =>
      el(
        "li",
        { class: one.contradicts ? "suggestion contradicts" : "suggestion" },
        el("div", { class: "row" }, el("strong", {}, inWords(one.value)), namesNewLabel(this.view.kind, one.value) && el("span", { class: "mark" }, "new label"), el("span", { class: "muted" }, `${Math.round(100 * one.score)} %`)),
        el("meter", { min: 0, max: 1, value: one.score, "aria-label": "score" }),
        el("p", { class: "reason" }, one.reason),
        alikePhotos(one),
        button(index === 0 ? withKey("Accept", "accept") : "Accept", () => this.view.accept(one), { class: "small" }),
      ),
    );
    return el("section", {}, el("h3", {}, "Suggestions"), el("ul", {}, rows));
  }

  findings(found) {
    if (!found.length) return null;
    const rows = found.map((one) => el("li", { class: "finding" }, el("p", {}, one.message), one.hint && el("p", { class: "hint" }, one.hint)));
    return el("section", {}, el("h3", {}, "Graph check"), el("ul", {}, rows));
  }
}
