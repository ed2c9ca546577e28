// The order of the classes by comparisons: each with its value and spread.

import { el, fill } from "/shared/elements.js";
import { get } from "./label_api.js";
import { count } from "./texts.js";

/** The margin at the ends of the axis, in spreads of the outermost values. */
const MARGIN = 1.2;
const share = (value) => `${Math.round(100 * value)} %`;

export class OrderList {
  constructor() {
    this.summary = el("div", { class: "order-summary" });
    this.list = el("ol", { class: "order", "aria-label": "The order so far" });
    this.root = el("aside", { class: "order-panel" }, el("h2", {}, "The order so far"), this.summary, this.list);
    this.request = 0;
  }

  clear() {
    fill(this.summary);
    fill(this.list);
    this.root.hidden = true;
  }

  /** Load the order and draw it; responses to earlier requests are ignored. */
  async load(kind, of) {
    const request = ++this.request;
    const found = await get("/api/compare/order", { kind, of }).catch(() => null);
    if (found && request === this.request) this.draw(found);
  }

  draw(found) {
    this.root.hidden = false;
    fill(this.summary, sentences(found).map((text) => el("p", { class: "muted" }, text)), doubts(found).map((text) => el("p", { class: "warn-text" }, text)));
    const ends = found.order.flatMap(({ value, spread }) => [value - MARGIN * spread, value + MARGIN * spread]);
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    const at = (value) => (high > low ? (100 * (value - low)) / (high - low) : 50);
    fill(this.list, found.order.map((one) => line(one, at, found.unit)));
    if (found.total > found.order.length) this.list.append(el("li", { class: "muted" }, `and ${(found.total - found.order.length).toLocaleString("en")} more`));
  }
}

function line({ fine, value, spread, comparisons, given }, at, unit) {
  const whisker = el("span", { class: "whisker" });
  Object.assign(whisker.style, { left: `${at(value - spread)}%`, width: `${at(value + spread) - at(value - spread)}%` });
  const dot = el("span", { class: given ? "dot given" : "dot" });
  dot.style.left = `${at(value)}%`;
  const valueText = `${value.toFixed(2)} ± ${spread.toFixed(2)}${unit ? ` ${unit}` : ""}`;
  return el(
    "li",
    { data: { fine }, title: `${valueText}, ${count(comparisons, "comparison")}${given ? ", has a value or label of its own" : ""}` },
    el("span", { class: "order-name" }, fine),
    el("span", { class: "axis", role: "img", "aria-label": valueText }, whisker, dot),
  );
}

/** The number of comparisons and the agreement, as sentences. */
function sentences({ comparisons, skipped, unknown, people, agreement }) {
  if (!comparisons) return ["Nobody has compared anything here yet. The order appears after the first answer."];
  const names = Object.entries(people).map(([name, number]) => `${name} ${number.toLocaleString("en")}`).join(", ");
  const skips = skipped ? `, ${skipped.toLocaleString("en")} skipped` : "";
  const found = [`${count(comparisons, "comparison")} (${names})${skips}${unknown ? `; ${count(unknown, "class", "classes")} not compared yet` : ""}.`];
  if (agreement.pairs) found.push(`People agree on ${share(agreement.observed)} of ${count(agreement.pairs, "pair")} that several have compared.`);
  return found;
}

/** Contradictions, as sentences. */
function doubts({ divided, circles, groups }) {
  const found = [];
  if (divided.length) {
    const [more, less, votes, against] = divided[0];
    found.push(`Contradictory: ${more} > ${less} (${votes} to ${against})${divided.length > 1 ? ` and ${divided.length - 1} more` : ""}.`);
  }
  if (circles.length) found.push(`A cycle: ${[...circles[0], circles[0][0]].join(" > ")}${circles.length > 1 ? `, and ${circles.length - 1} more` : ""}.`);
  if (groups > 1) found.push(`${groups} groups are not linked by any comparison yet.`);
  return found;
}
