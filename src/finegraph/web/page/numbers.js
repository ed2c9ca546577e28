// A number, such as a price: what the model says of it on an axis, and two handles for what the person knows. Both handles
// at their ends mean that nothing is known. On a log scale equal steps of a handle are equal ratios.

import { el } from "./dom.js";

const STEPS = 200;

/** The part of the kinds that shows one number and asks for its range. */
export function numberGroup({ name, unit, scale, low, high, whole }, known) {
  const log = scale === "log";
  const inner = (value) => (log ? Math.log(value) : value);
  const [start, end] = [inner(low), inner(high)];
  const share = (value) => (end > start ? Math.min(1, Math.max(0, (inner(value) - start) / (end - start))) : 0.5);
  const valueAt = (step) => {
    const at = start + ((end - start) * step) / STEPS;
    const value = log ? Math.exp(at) : at;
    return digits(value, whole ? 1 : ((end - start) / STEPS) * (log ? value : 1));
  };
  let sent = null; // what the handles told last
  const words = el("span", { className: "value" });
  const told = el("output", { className: "told" });
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
      oninput: () => hold(place),
      onchange: tell,
    }),
  );

  /** The handle that moves pushes the other one along. */
  function hold(place) {
    const [least, most] = handles.map((handle) => Number(handle.value));
    if (least > most) handles[1 - place].value = handles[place].value;
    say();
  }

  const steps = () => handles.map((handle) => Number(handle.value));
  const isWhole = ([least, most]) => least === 0 && most === STEPS;

  function say() {
    const now = steps();
    const [least, most] = now.map(valueAt);
    const texts = [];
    if (now[0] > 0) texts.push(`at least ${least}`);
    if (now[1] < STEPS) texts.push(`at most ${most}`);
    told.textContent = texts.length ? `You say: ${texts.join(", ")}${unit ? ` ${unit}` : ""}` : "";
    handles.forEach((handle, place) => handle.setAttribute("aria-valuetext", `${now.map(valueAt)[place]} ${unit}`.trim()));
  }

  function tell() {
    const now = steps();
    const [least, most] = now.map(valueAt);
    sent = now[0] === 0 ? `<= ${most}` : now[1] === STEPS ? `>= ${least}` : `>= ${least} and <= ${most}`;
    known.tell(name, isWhole(now) ? null : sent);
  }

  function lay() {
    handles[0].value = "0";
    handles[1].value = String(STEPS);
    say();
  }

  /** Put the handles where what was told elsewhere, such as "> 12 and <= 20", says; strict limits are said in words. */
  function follow(text) {
    const ends = [0, STEPS];
    const stepOf = (value) => share(value) * STEPS;
    for (const [, sign, value] of text.matchAll(/(<=|>=|<|>)\s*([-+.\deE]+)/g)) {
      if (sign.startsWith(">")) ends[0] = Math.max(ends[0], Math.ceil(stepOf(Number(value))));
      else ends[1] = Math.min(ends[1], Math.floor(stepOf(Number(value))));
    }
    handles.forEach((handle, place) => (handle.value = String(ends[place])));
    const said = text.replaceAll("<=", "at most").replaceAll(">=", "at least").replaceAll("<", "below").replaceAll(">", "above");
    told.textContent = `You say: ${said.replaceAll(" and ", ", ")}${unit ? ` ${unit}` : ""}`;
  }

  function fill(prediction) {
    const answer = prediction.numbers[name];
    words.textContent = answer.text;
    band.style.setProperty("--from", share(answer.low));
    band.style.setProperty("--to", share(answer.high));
    mean.style.setProperty("--at", share(answer.mean));
    if (handles.includes(document.activeElement)) return;
    const [text] = known.labels(name);
    if (text === undefined) lay();
    else if (text !== sent) follow(text);
  }

  const axis = el("div", { className: "axis", "aria-hidden": "true" }, band, mean);
  const ends = [low, high].map((value) => el("span", { textContent: `${digits(value, whole ? 1 : (high - low) / STEPS)}${unit ? ` ${unit}` : ""}` }));
  const element = el(
    "div",
    { className: "kind number" },
    el("div", { className: "said" }, el("h3", { textContent: name }), words),
    axis,
    el("div", { className: "handles", role: "group", "aria-label": `What you know of ${name}` }, ...handles),
    el("div", { className: "ends" }, ...ends),
    told,
  );
  return { name, element, lay, fill };
}

/** A value with as many digits as one reads: three, and all of whole numbers such as years; more where steps are small. */
function digits(value, step = 1) {
  if (Number.isInteger(value)) return String(value);
  if (Math.abs(value) < 100) return String(Number(value.toPrecision(3)));
  const places = step >= 0.1 || !(step > 0) ? 0 : Math.min(9, Math.ceil(-Math.log10(step)));
  return String(Number(value.toFixed(places)));
}
