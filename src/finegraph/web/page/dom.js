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

/** The probability of a label in a list that may hold the most probable ones only; nothing of the others is known but
 * that they share what is left. */
export function probabilityOf(answers, label) {
  const found = answers.find((answer) => answer.label === label);
  if (found) return found.probability;
  const left = 1 - answers.reduce((sum, answer) => sum + answer.probability, 0);
  return left > 1e-6 ? Math.min(left, answers.at(-1)?.probability ?? 1, 0.004) : 0;
}

export const byId = (id) => document.getElementById(id);

/** A probability as one says it, also a small one: `62 %`, `1 in 4,000`. */
export function chance(probability) {
  if (probability >= 0.1) return percent(probability);
  if (probability < 1e-9) return "less than 1 in 1,000,000,000";
  return `1 in ${Number((1 / probability).toPrecision(2)).toLocaleString("en")}`;
}

/** A probability where there is little room, and always of about the same width. */
export const brief = (probability) => percent(probability).replace("over ", "> ").replace("under ", "< ");

/** A probability that never claims to be certain when it is not. */
export function percent(probability) {
  if (probability >= 0.995 && probability < 1 - 1e-9) return "over 99 %";
  if (probability > 0 && probability < 0.005) return "under 1 %";
  return `${Math.round(100 * probability)} %`;
}
