// Element helpers of the pages of both servers. Text is always set as text, never parsed as HTML, so that no name can become markup.

/**
 * Create an element. Names that are properties of the element are set as properties, all others as attributes; null and
 * undefined are left out.
 *
 * @param {string} tag
 * @param {object} attributes `on...` are listeners, `data` is an object of data attributes, `style` one of CSS properties
 * @param {...*} children nodes or texts; arrays are flattened, and null, undefined and false left out
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else if (name in element) element[name] = value;
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

/** Append children to an element, as `el` does. */
export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace the children of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

export const byId = (id) => document.getElementById(id);

/** A button with a text. */
export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", ...attributes, onclick }, text);
}
