// Probabilities and long names as texts.

/** Truncate a name that is too long for a sentence. */
export function truncate(name) {
  const letters = [...name];
  return letters.length <= 160 ? name : `${letters.slice(0, 159).join("").trimEnd()}…`;
}

/** The probability of a label in a list that may contain only the most probable labels. Labels that are not listed
 * share the remaining probability; the result is then an upper estimate. */
export function probabilityOf(answers, label) {
  const found = answers.find((answer) => answer.label === label);
  if (found) return found.probability;
  const left = 1 - answers.reduce((sum, answer) => sum + answer.probability, 0);
  return left > 1e-6 ? Math.min(left, answers.at(-1)?.probability ?? 1, 0.004) : 0;
}

/** A probability as a text for sentences, readable also if it is small: `62 %`, `1 in 4,000`. */
export function chanceText(probability) {
  if (probability >= 0.1) return percent(probability);
  if (probability < 1e-9) return "less than 1 in 1,000,000,000";
  return `1 in ${Number((1 / probability).toPrecision(2)).toLocaleString("en")}`;
}

/** A short percentage of nearly constant width, for lists. */
export const shortPercent = (probability) => percent(probability).replace("over ", "> ").replace("under ", "< ");

/** A percentage that is 0 % or 100 % only if the probability is exactly 0 or 1. */
export function percent(probability) {
  if (probability >= 0.995 && probability < 1 - 1e-9) return "over 99 %";
  if (probability > 0 && probability < 0.005) return "under 1 %";
  return `${Math.round(100 * probability)} %`;
}
