// A number, such as a price: an axis with the predicted value, and two handles that enter a range as evidence. With both
// handles at their ends there is no evidence. On a log scale, equal steps of a handle are equal ratios.

import { el } from "/shared/elements.js";

const STEPS = 200;

/** A value with its spread as people read it: files and answers of the API have "184 +- 67". */
export function withSign(text) {
  return text.replace(/\s*\+-\s*/g, " ± ");
}

/** Evidence on a number, such as ">= 10 and <= 12", in words. */
export function limitWords(text, unit) {
  const words = withSign(text).replaceAll("<=", "at most").replaceAll(">=", "at least").replaceAll("<", "below").replaceAll(">", "above");
  return `${words.replaceAll(" and ", ", ")}${unit ? ` ${unit}` : ""}`;
}

/** The group of one number. */
export function numberGroup({ name, unit, scale, low, high, whole }, evidence) {
  const log = scale === "log";
  const inner = (value) => (log ? Math.log(value) : value);
  const [start, end] = [inner(low), inner(high)];
  const share = (value) => (end > start ? Math.min(1, Math.max(0, (inner(value) - start) / (end - start))) : 0.5);
  const valueAt = (step) => {
    const at = start + ((end - start) * step) / STEPS;
    const value = log ? Math.exp(at) : at;
    return digits(value, whole ? 1 : ((end - start) / STEPS) * (log ? value : 1));
  };
  let sent = null; // the last evidence from the handles
  const predicted = el("span", { className: "value" });
  const rangeText = el("output", { className: "range-text" });
  const band = el("span", { className: "band" });
  const mean = el("span", { className: "mean" });
  const handles = ["at least", "at most"].map((bound, place) =>
    el("input", {
      type: "range",
      min: "0",
      max: String(STEPS),
      value: place ? String(STEPS) : "0",
      "aria-label": `${name}: ${bound}`,
      "data-key": `${name} ${bound}`,
      oninput: () => moveHandle(place),
      onchange: send,
    }),
  );

  /** After a handle has moved: it pushes the other one along. */
  function moveHandle(place) {
    const [first, last] = steps();
    if (first > last) handles[1 - place].value = handles[place].value;
    showRange();
  }

  const steps = () => handles.map((handle) => Number(handle.value));
  const isWhole = ([first, last]) => first === 0 && last === STEPS;

  function showRange() {
    const now = steps();
    const [min, max] = now.map(valueAt);
    const texts = [];
    if (now[0] > 0) texts.push(`at least ${min}`);
    if (now[1] < STEPS) texts.push(`at most ${max}`);
    rangeText.textContent = texts.length ? `Entered: ${texts.join(", ")}${unit ? ` ${unit}` : ""}` : "";
    handles.forEach((handle, place) => handle.setAttribute("aria-valuetext", `${now.map(valueAt)[place]} ${unit}`.trim()));
  }

  function send() {
    const now = steps();
    const [min, max] = now.map(valueAt);
    sent = now[0] === 0 ? `<= ${max}` : now[1] === STEPS ? `>= ${min}` : `>= ${min} and <= ${max}`;
    evidence.setOnly(name, isWhole(now) ? null : sent);
  }

  function reset() {
    handles[0].value = "0";
    handles[1].value = String(STEPS);
    showRange();
  }

  /** Move the handles to evidence that was entered elsewhere, such as "> 12 and <= 20"; only the text shows strict limits. */
  function moveTo(text) {
    const ends = [0, STEPS];
    const stepOf = (value) => share(value) * STEPS;
    for (const [, sign, value] of text.matchAll(/(<=|>=|<|>)\s*([-+.\deE]+)/g)) {
      if (sign.startsWith(">")) ends[0] = Math.max(ends[0], Math.ceil(stepOf(Number(value))));
      else ends[1] = Math.min(ends[1], Math.floor(stepOf(Number(value))));
    }
    handles.forEach((handle, place) => (handle.value = String(ends[place])));
    rangeText.textContent = `Entered: ${limitWords(text, unit)}`;
  }

  function fill(prediction) {
    const answer = prediction.numbers[name];
    predicted.textContent = answer.text;
    band.style.setProperty("--from", share(answer.low));
    band.style.setProperty("--to", share(answer.high));
    mean.style.setProperty("--at", share(answer.mean));
    if (handles.includes(document.activeElement)) return;
    const [text] = evidence.labels(name);
    if (text === undefined) reset();
    else if (text !== sent) moveTo(text);
  }

  const axis = el("div", { className: "axis", "aria-hidden": "true" }, band, mean);
  const ends = [low, high].map((value) => el("span", { textContent: `${digits(value, whole ? 1 : (high - low) / STEPS)}${unit ? ` ${unit}` : ""}` }));
  const element = el(
    "div",
    { className: "kind number" },
    el("div", { className: "predicted" }, el("h3", { textContent: name }), predicted),
    axis,
    el("div", { className: "handles", role: "group", "aria-label": `What you know about ${name}` }, ...handles),
    el("div", { className: "ends" }, ...ends),
    rangeText,
  );
  return { name, element, layOut: reset, fill };
}

/** A value with three digits, or all digits of whole numbers such as years; more if steps are small. */
function digits(value, step = 1) {
  if (Number.isInteger(value)) return String(value);
  if (Math.abs(value) < 100) return String(Number(value.toPrecision(3)));
  const places = step >= 0.1 || !(step > 0) ? 0 : Math.min(9, Math.ceil(-Math.log10(step)));
  return String(Number(value.toFixed(places)));
}
