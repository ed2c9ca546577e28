// Making elements. Text is always set as text, never parsed as HTML, so that no name can become markup.

/** An element with attributes and children; strings become text. Attributes named `on*` are listeners. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

/** Put children into an element; arrays are flattened and empty ones left out. */
export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what is in an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** The first element that a selector finds. */
export const find = (selector, root = document) => root.querySelector(selector);

/** A button with a text. */
export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", ...attributes, onclick }, text);
}

/** A number with its noun: "1 class", "12 classes". */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** A share as whole per cent, never rounded up to 100. */
export function percent(part, whole) {
  return whole ? `${Math.floor((100 * part) / whole)} %` : "–";
}

/** When something happened, for a person: the time if it was today, else the day and the time. */
export function when(text) {
  if (!text) return "";
  const date = new Date(text);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}
