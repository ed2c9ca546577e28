// The team: progress per kind and per person, agreement, what the graph check finds, and the last actions.

import { setAddress } from "./address.js";
import { get, person } from "./api.js";
import { button, count, el, fill, percent, when } from "./dom.js";
import { showAction } from "./history.js";
import { act, model } from "./model.js";
import { fullText } from "./edit_text.js";
import { afterTyping } from "./typing.js";

const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));
const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
const cell = (...content) => el("td", {}, ...content);
const head = (...names) => el("thead", {}, el("tr", {}, names.map((name) => el("th", {}, name))));
const table = (header, rows, none) =>
  rows.length ? el("div", { class: "scroll" }, el("table", {}, header, el("tbody", {}, rows))) : el("p", { class: "muted" }, none);

const FIRST = 30;
/** How many more actions are shown at a time, which is also the most that the server gives at once. */
const MORE = 200;

/** What edits have values; of others the sentence of their action says all. */
const OF_VALUES = new Set(["cell", "note", "photo", "comparison"]);
/** Actions of which the values say all. */
const SAID_BY_VALUES = new Set(["decide", "note", "photo", "compare"]);

export class TeamView {
  /** @param {{openGrid: (kind: string, show: string) => void, openClass: (fine: string) => void}} go */
  constructor(root, go) {
    Object.assign(this, { go, parts: [], most: FIRST, person: "" });
    // The list of actions stays where it is when the rest is drawn anew, so that its choice of people stays open.
    this.people = el("select", { "aria-label": "Whose actions", onchange: () => this.showActions({ person: this.people.value, most: FIRST }) });
    this.actionList = el("div", {});
    const tools = el("div", { class: "row wrap" }, el("h2", {}, "Last actions"), this.people);
    this.root = el("div", { class: "team-view", hidden: true }, el("section", { class: "broad" }, tools, this.actionList));
    root.append(this.root);
    document.addEventListener("visibilitychange", () => this.missed && this.again());
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

  /** Everybody who has acted, to choose from. */
  drawPeople() {
    const names = [...new Set([...model.people, ...model.progress.people.map((one) => one.person)])].sort();
    if (JSON.stringify(names) === this.named) return;
    this.named = JSON.stringify(names);
    fill(this.people, el("option", { value: "" }, "Everybody"), names.map((name) => el("option", { value: name, selected: name === this.person }, name)));
  }

  /** Show the actions of somebody else, or more of them. */
  async showActions(change) {
    Object.assign(this, change);
    const draw = await this.loadActions().catch((problem) => () => fill(this.actionList, el("p", { class: "fault", role: "alert" }, problem.message)));
    draw();
  }

  /** Load the actions that are asked for; resolves to what draws them. */
  async loadActions() {
    const { person, most } = this;
    const batches = [];
    let more = true;
    while (more && batches.length < most) {
      const limit = Math.min(MORE, most - batches.length);
      const page = await get("/api/batches", { person, before: batches.at(-1)?.number, limit });
      batches.push(...page.batches);
      more = page.batches.length === limit;
    }
    const next = more && button("Show more", () => this.showActions({ most: this.most + MORE }), { class: "quiet" });
    return () => {
      const wanted = person === this.person && most === this.most; // nothing else was asked for meanwhile
      if (wanted) fill(this.actionList, this.batches(batches), next);
    };
  }

  kinds(kinds) {
    const rows = kinds.map((kind) =>
      el(
        "tr",
        {},
        cell(button(kind.kind, () => this.go.openGrid(kind.kind, "all"), { class: "link" })),
        cell(el("progress", { max: kind.total, value: kind.known, "aria-label": `known of ${kind.kind}` }), ` ${percent(kind.known, kind.total)}`),
        cell(this.many(kind.unknown, kind.kind, "unknown")),
        cell(this.many(kind.disagreements, kind.kind, "disagreement")),
        cell(this.many(kind.low_confidence, kind.kind, "low_confidence")),
      ),
    );
    return table(head("Kind", "Known", "Unknown", "Disagree", "Model doubts"), rows, "There are no kinds yet.");
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
    return rows.length ? el("ul", { class: "findings" }, rows) : el("p", { class: "muted" }, "Nothing is doubtful.");
  }

  batches(batches) {
    const rows = batches.map((one) => {
      const undo = one.can_undo && button(one.is_undo ? "Redo" : "Undo", () => act("/api/undo", { batch: one.number }), { class: "small" });
      return el("tr", { class: one.undone ? "undone" : "" }, cell(when(one.at)), cell(one.person ?? "–"), cell(this.told(one)), cell(one.undone ? "undone" : undo));
    });
    return table(head("When", "Who", "What", ""), rows, "Nothing has happened yet.");
  }

  /** What an action did: the old and the new value of each edit; of many the last ones, and all at a click. */
  told(batch) {
    const { action, text, edits, count: all } = batch;
    const lines = edits.filter(({ target }) => OF_VALUES.has(target)).map((edit) => el("li", {}, fullText(edit)));
    const rest = all > Math.max(1, lines.length) && button(`All ${count(all, "change")} …`, () => showAction(batch), { class: "link" });
    const title = (!SAID_BY_VALUES.has(action) || !lines.length) && el("p", {}, text);
    return [title, lines.length > 0 && el("ul", { class: "edits" }, lines), rest];
  }

  actions = {};

  choose() {}

  /** Whether a cell is in sight: none is here. */
  shows() {
    return false;
  }

  /** Load all anew, once for edits that come close together, and only while somebody looks. */
  again = afterTyping(() => {
    this.missed = document.hidden;
    if (!this.missed && !this.root.hidden) this.open().catch(() => {});
  }, 300);

  /** Once more when all is quiet: of very many classes the server counts the progress only every few seconds. */
  atLast = afterTyping(() => this.again(), 5000);

  changed(what) {
    if (!["saved", "refused", "others", "names"].includes(what)) return;
    this.again();
    this.atLast();
  }
}
