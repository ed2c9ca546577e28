// The team: progress per kind and per person, agreement, the findings of the graph check, and the last actions.

import { button, el, fill } from "/shared/elements.js";
import { setAddress } from "./address.js";
import { debounce } from "./debounce.js";
import { fullText } from "./edit_text.js";
import { showAction } from "./history.js";
import { get, person } from "./label_api.js";
import { act, model } from "./model.js";
import { count, percentOf, when } from "./texts.js";

const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));
const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
const cell = (...content) => el("td", {}, ...content);
const head = (...names) => el("thead", {}, el("tr", {}, names.map((name) => el("th", {}, name))));
const table = (header, rows, none) =>
  rows.length ? el("div", { class: "scroll" }, el("table", {}, header, el("tbody", {}, rows))) : el("p", { class: "muted" }, none);

/** The number of actions shown at first. */
const FIRST_ACTIONS = 30;
/** The number of actions added by "Show more", which is also the limit of one request. */
const MORE_ACTIONS = 200;

/** Targets of edits that are shown with their values; for others the text of the action is enough. */
const VALUE_TARGETS = new Set(["cell", "note", "photo", "comparison"]);
/** Actions that are shown by their values alone. */
const VALUE_ACTIONS = new Set(["decide", "note", "photo", "compare"]);

export class TeamView {
  /** @param {{openGrid: (kind: string, show: string) => void, openClass: (fine: string) => void}} go */
  constructor(root, go) {
    Object.assign(this, { go, parts: [], maxShown: FIRST_ACTIONS, person: "" });
    // The list of actions is not redrawn with the rest, so that its select of people stays open.
    this.people = el("select", { "aria-label": "Whose actions", onchange: () => this.showActions({ person: this.people.value, maxShown: FIRST_ACTIONS }) });
    this.actionList = el("div", {});
    const tools = el("div", { class: "row wrap" }, el("h2", {}, "Last actions"), this.people);
    this.root = el("div", { class: "team-view", hidden: true }, el("section", { class: "broad" }, tools, this.actionList));
    root.append(this.root);
    document.addEventListener("visibilitychange", () => this.missed && this.reload());
  }

  async open() {
    setAddress("team");
    const [progress, agreement, findings, drawActions] = await Promise.all([
      get("/api/progress"),
      get("/api/agreement"),
      get("/api/findings"),
      this.loadActions(),
    ]);
    model.progress = progress;
    for (const part of this.parts) part.remove();
    this.parts = [
      el("section", {}, el("h2", {}, "Progress"), this.kinds(progress.kinds)),
      el("section", {}, el("h2", {}, "People"), this.persons(progress.people)),
      el("section", {}, el("h2", {}, "Agreement"), this.agreement(agreement)),
      el("section", {}, el("h2", {}, "Graph check"), this.findings(findings.findings)),
    ];
    this.root.prepend(...this.parts);
    this.drawPeople();
    drawActions();
  }

  /** Fill the select of people. */
  drawPeople() {
    const names = [...new Set([...model.people, ...model.progress.people.map((one) => one.person)])].sort();
    if (JSON.stringify(names) === this.named) return;
    this.named = JSON.stringify(names);
    fill(this.people, el("option", { value: "" }, "Everybody"), names.map((name) => el("option", { value: name, selected: name === this.person }, name)));
  }

  /** Show the actions of another person, or more of them. */
  async showActions(change) {
    Object.assign(this, change);
    const draw = await this.loadActions().catch((problem) => () => fill(this.actionList, el("p", { class: "fault", role: "alert" }, problem.message)));
    draw();
  }

  /** Load actions; resolves to a function that draws them. */
  async loadActions() {
    const { person, maxShown } = this;
    const batches = [];
    let more = true;
    while (more && batches.length < maxShown) {
      const limit = Math.min(MORE_ACTIONS, maxShown - batches.length);
      const page = await get("/api/batches", { person, before: batches.at(-1)?.number, limit });
      batches.push(...page.batches);
      more = page.batches.length === limit;
    }
    const next = more && button("Show more", () => this.showActions({ maxShown: this.maxShown + MORE_ACTIONS }), { class: "quiet" });
    return () => {
      const isCurrent = person === this.person && maxShown === this.maxShown; // no other actions were requested meanwhile
      if (isCurrent) fill(this.actionList, this.batches(batches), next);
    };
  }

  kinds(kinds) {
    const rows = kinds.map((kind) =>
      el(
        "tr",
        {},
        cell(button(kind.kind, () => this.go.openGrid(kind.kind, "all"), { class: "link" })),
        cell(el("progress", { max: kind.total, value: kind.known, "aria-label": `known of ${kind.kind}` }), ` ${percentOf(kind.known, kind.total)}`),
        cell(this.many(kind.unknown, kind.kind, "unknown")),
        cell(this.many(kind.disagreements, kind.kind, "disagreement")),
        cell(this.many(kind.low_confidence, kind.kind, "low_confidence")),
      ),
    );
    return table(head("Kind", "Known", "Unknown", "Disagree", "Model is unsure"), rows, "There are no kinds yet.");
  }

  many(value, kind, show) {
    if (!value) return "0";
    return button(value.toLocaleString("en"), () => this.go.openGrid(kind, show), { class: "link" });
  }

  persons(people) {
    const rows = people.map((one) =>
      el("tr", {}, cell(el("strong", {}, one.person), one.person === person() && " (you)"), cell(one.decisions.toLocaleString("en")), cell(one.today.toLocaleString("en")), cell(when(one.last))),
    );
    return table(head("Person", "Decisions", "Today", "Last"), rows, "Nobody has decided anything yet.");
  }

  agreement({ pairs, kinds, fleiss }) {
    const of = kinds.filter((one) => one.cells > 0);
    const byKind = of.map((one) => el("tr", {}, cell(one.kind), cell(one.cells), cell(one.people), cell(share(one.observed)), cell(number(one.fleiss))));
    const byPair = pairs.map((one) => el("tr", {}, cell(`${one.one} and ${one.two}`), cell(one.cells), cell(share(one.observed)), cell(number(one.kappa))));
    if (!byPair.length) return el("p", { class: "muted" }, "No two people have labelled the same class yet.");
    return [
      el("p", {}, "Fleiss’ kappa over all kinds: ", el("strong", {}, number(fleiss))),
      table(head("Pair", "Both decided", "Agree", "Cohen’s kappa"), byPair, ""),
      table(head("Kind", "Decided twice", "People", "Agree", "Fleiss’ kappa"), byKind, ""),
    ];
  }

  findings(findings) {
    const rows = findings.slice(0, 50).map((one) =>
      el(
        "li",
        { class: "finding" },
        el("p", {}, one.kind && el("strong", {}, `${one.kind}: `), one.message),
        one.hint && el("p", { class: "hint" }, one.hint),
        one.fine.slice(0, 3).map((fine) => button(fine, () => this.go.openClass(fine), { class: "link" })),
      ),
    );
    return rows.length ? el("ul", { class: "findings" }, rows) : el("p", { class: "muted" }, "No findings.");
  }

  batches(batches) {
    const rows = batches.map((one) => {
      const undo = one.can_undo && button(one.is_undo ? "Redo" : "Undo", () => act("/api/undo", { batch: one.number }), { class: "small" });
      return el("tr", { class: one.undone ? "undone" : "" }, cell(when(one.at)), cell(one.person ?? "–"), cell(this.describe(one)), cell(one.undone ? "undone" : undo));
    });
    return table(head("When", "Who", "What", ""), rows, "Nothing has happened yet.");
  }

  /** The old and new values of the last edits of an action, with a button for all of them. */
  describe(batch) {
    const { action, text, edits, count: all } = batch;
    const lines = edits.filter(({ target }) => VALUE_TARGETS.has(target)).map((edit) => el("li", {}, fullText(edit)));
    const rest = all > Math.max(1, lines.length) && button(`All ${count(all, "change")} …`, () => showAction(batch), { class: "link" });
    const title = (!VALUE_ACTIONS.has(action) || !lines.length) && el("p", {}, text);
    return [title, lines.length > 0 && el("ul", { class: "edits" }, lines), rest];
  }

  actions = {};

  choose() {}

  /** Whether the view shows a cell: it never does. */
  shows() {
    return false;
  }

  /** Reload everything, once for edits in quick succession, and only while the page is visible. */
  reload = debounce(() => {
    this.missed = document.hidden;
    if (!this.missed && !this.root.hidden) this.open().catch(() => {});
  }, 300);

  /** Reload once more after a longer pause: with very many classes the server updates the progress every few seconds only. */
  reloadLate = debounce(() => this.reload(), 5000);

  changed(what) {
    if (!["saved", "refused", "others", "names"].includes(what)) return;
    this.reload();
    this.reloadLate();
  }
}
