// The values of cells: null (unknown), one label, {one_of}, {weights} or {all_of}; the same forms as on the server.

/** The labels in a value. */
export function labelsIn(value) {
  if (value === null || value === undefined) return [];
  if (typeof value === "string") return [value];
  return value.one_of ?? value.all_of ?? Object.keys(value.weights ?? {});
}

/** Whether a value is a label that a kind does not have yet. */
export const namesNewLabel = (kind, value) => typeof value === "string" && kind !== undefined && !kind.labels.includes(value);

/** The weight of a label in a value; undefined if it has none. */
export const weightOf = (value, label) => value?.weights?.[label];

/** The value after a label was chosen. With `more`, and in kinds of mode "all", the label is added or removed. */
export function choose(kind, value, label, more = false) {
  if (kind.mode !== "all" && !more) return label;
  const held = new Set(labelsIn(value));
  if (!held.delete(label)) held.add(label);
  // Keep labels that the kind does not have here because somebody has just renamed them.
  const ordered = [...kind.labels.filter((name) => held.has(name)), ...[...held].filter((name) => !kind.labels.includes(name))];
  if (kind.mode === "all") return { all_of: ordered };
  return ordered.length > 1 ? { one_of: ordered } : (ordered[0] ?? null);
}

/** Whether two values are equal. */
export const same = (one, two) => JSON.stringify(one ?? null) === JSON.stringify(two ?? null);

/** A value as a text. */
export function inWords(value) {
  if (value === null || value === undefined) return "unknown";
  if (typeof value === "string") return value;
  if (value.all_of) return value.all_of.length ? value.all_of.join(" & ") : "none of them";
  if (value.one_of) return value.one_of.join(" or ");
  if (!value.weights) return String(value.text ?? JSON.stringify(value));
  return Object.entries(value.weights).map(([label, weight]) => `${label} ${Math.round(100 * weight)} %`).join(" or ");
}
