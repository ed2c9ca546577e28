// Counts, shares and times as texts.

/** A number with its noun: "1 class", "12 classes". */
export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** A share as a whole percentage, rounded down so that only a complete one is 100 %. */
export function percentOf(part, whole) {
  return whole ? `${Math.floor((100 * part) / whole)} %` : "–";
}

/** A time: the time of day if it is today, else with the day. */
export function when(text) {
  if (!text) return "";
  const date = new Date(text);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}
