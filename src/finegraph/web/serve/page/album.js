// The album: several photos as a list of small pictures, each with its best label. One of them is selected.

import { byId, el } from "/shared/elements.js";
import { percent } from "./probabilities.js";

let urls = [];

/**
 * Show the list; it is hidden if there is only one photo.
 * @param entries [{file, plain, problem}], filled in as answers come; `showEntry` then shows them
 * @param onSelect (entry) => void
 */
export function showAlbum(entries, onSelect) {
  urls.forEach((url) => URL.revokeObjectURL(url));
  urls = [];
  const list = byId("album").querySelector("ul");
  byId("album").hidden = entries.length < 2;
  if (entries.length < 2) return list.replaceChildren();
  for (const entry of entries) {
    const url = URL.createObjectURL(entry.file);
    urls.push(url);
    const picture = el("img", { src: url, alt: "", loading: "lazy", onerror: () => picture.removeAttribute("src") });
    entry.words = el("span", { className: "words" });
    entry.button = el("button", { type: "button", onclick: () => onSelect(entry) }, picture, entry.words);
    showEntry(entry);
  }
  return list.replaceChildren(...entries.map((entry) => el("li", {}, entry.button)));
}

/** Why there is no answer; only problems named "photo" are about the photo itself. */
function failure(problem) {
  return problem?.name === "photo" ? "Unreadable photo" : problem && (problem.title ?? "No answer");
}

/** Update one photo of the list. */
export function showEntry(entry) {
  if (!entry.button) return;
  const [best] = entry.plain?.top ?? [];
  entry.words.replaceChildren(
    el("b", { textContent: best?.label ?? failure(entry.problem) ?? "…", title: best?.label ?? entry.problem?.detail ?? "" }),
    el("span", { textContent: best ? percent(best.probability) : "" }),
  );
  entry.button.setAttribute("aria-label", `${entry.file.name}: ${best ? `${best.label}, ${percent(best.probability)}` : entry.words.textContent}`);
}

/** Mark the selected photo. */
export function markEntry(entries, selected) {
  for (const entry of entries) entry.button?.setAttribute("aria-pressed", String(entry === selected));
}
