// The keys and their actions. A person can change the keys; they are kept in the browser.
//
// A view implements actions by name. Digits, and letters that no action uses, choose labels.

const STORE = "finegraph.keys";

/** Every action with its description and default key. */
export const ACTIONS = {
  next: ["the next row; when comparing: cannot tell", "ArrowDown"],
  previous: ["the previous row", "ArrowUp"],
  right: ["the next class, kind or photo; when comparing: the right one has more", "ArrowRight"],
  left: ["the previous class, kind or photo; when comparing: the left one has more", "ArrowLeft"],
  save: ["save the shown value as your decision and continue", "Enter"],
  clear: ["make it unknown", "Backspace"],
  undo: ["undo your last action", "u"],
  search: ["search classes", "/"],
  help: ["show and change the keys", "?"],
  find: ["find a label by its name, or add one; when comparing: equal", "="],
  accept: ["accept the suggestion", "s"],
  acceptAll: ["list suggestions and accept many at once", "S"],
  resolve: ["settle a disagreement with the shown value; at a conflict take the other value", "r"],
  filter: ["the next filter", "f"],
  grid: ["change between one class and the grid", "g"],
  compare: ["compare two classes or photos: which has more", "C"],
  team: ["the team: progress, agreement, last actions", "G"],
  photos: ["label single photos; compare photos or classes", "p"],
  enlarge: ["enlarge the photo, or close it", " "],
  order: ["the likeliest labels first, or in their original order", "o"],
  note: ["write a note", "n"],
  history: ["who decided this, and when", "h"],
  names: ["names: add, rename, merge or split labels, kinds and classes", "m"],
  files: ["files: export, import, compare", "M"],
  back: ["close", "Escape"],
};

const CHOICES = "1234567890abcdefghijklmnopqrstuvwxyz";

/** The keys in use: action -> key. */
export function bindings() {
  const chosen = saved();
  return Object.fromEntries(Object.entries(ACTIONS).map(([name, [, key]]) => [name, chosen[name] ?? key]));
}

/** Change the key of an action; an action that has the key gets the old one. */
export function rebind(action, key) {
  const before = bindings();
  const chosen = saved();
  const other = Object.keys(before).find((name) => name !== action && before[name] === key);
  if (other) chosen[other] = before[action];
  chosen[action] = key;
  localStorage.setItem(STORE, JSON.stringify(chosen));
  cached = null;
}

/** Reset all keys to their defaults. */
export function resetKeys() {
  localStorage.removeItem(STORE);
  cached = null;
}

let cached = null;

/** The action of each key, and the keys that choose labels, in order. */
function table() {
  if (!cached) {
    // A key chosen by the person wins over a default key of a later version.
    const chosen = saved();
    const all = Object.entries(bindings()).sort(([one], [other]) => (one in chosen) - (other in chosen));
    const byKey = new Map(all.map(([name, key]) => [key, name]));
    cached = { byKey, choices: [...CHOICES].filter((key) => !byKey.has(key)) };
  }
  return cached;
}

/** The keys that choose labels, in the order of the labels. */
export const choiceKeys = () => table().choices;

/** The meaning of a key press: `{action}`, `{choice, more}` or null. With Shift a choice adds a label. */
export function meaning(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const action = table().byKey.get(event.key);
  if (action) return { action };
  const plain = event.code?.startsWith("Digit") ? event.code.slice(5) : event.key.toLowerCase();
  const choice = table().choices.indexOf(plain);
  return choice < 0 ? null : { choice, more: event.shiftKey };
}

/** A text with the key of an action in parentheses. */
export const withKey = (text, action) => `${text} (${keyName(bindings()[action])})`;

/** A key as it is written on keyboards. */
export function keyName(key) {
  const names = { ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←", Escape: "Esc", " ": "Space" };
  return names[key] ?? (/^[A-Z]$/.test(key) ? `Shift ${key.toLowerCase()}` : key);
}

function saved() {
  try {
    const chosen = JSON.parse(localStorage.getItem(STORE) ?? "{}");
    const known = ([name, key]) => name in ACTIONS && typeof key === "string";
    return Object.fromEntries(Object.entries(chosen ?? {}).filter(known));
  } catch {
    return {};
  }
}
