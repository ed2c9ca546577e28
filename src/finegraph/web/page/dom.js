// Making elements. Text is always text: names come from files and uploads, and none of them may become HTML.

/** An element with properties, attributes (`aria-...`, `role`, `data-...`), listeners (`onclick`) and children. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "share") made.style.setProperty("--share", value);
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A name that may be too long for a sentence. */
export function short(name) {
  const letters = [...name];
  return letters.length <= 160 ? name : `${letters.slice(0, 159).join("").trimEnd()}…`;
}

export const byId = (id) => document.getElementById(id);

/** A probability that never claims to be certain when it is not. */
export function percent(probability) {
  if (probability >= 0.995 && probability < 1 - 1e-9) return "over 99 %";
  if (probability > 0 && probability < 0.005) return "under 1 %";
  return `${Math.round(100 * probability)} %`;
}
