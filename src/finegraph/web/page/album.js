// Several photos at once: a list of small pictures, each with its first answer; one of them is looked at closely.

import { byId, el, percent } from "./dom.js";

let urls = [];

/**
 * Put up the list; a single photo needs none.
 * @param entries [{file, plain, problem}], filled in as answers come; `showEntry` then shows them
 * @param chosen (entry) => void
 */
export function showAlbum(entries, chosen) {
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
    entry.button = el("button", { type: "button", onclick: () => chosen(entry) }, picture, entry.words);
    showEntry(entry);
  }
  return list.replaceChildren(...entries.map((entry) => el("li", {}, entry.button)));
}

/** Why there is no answer: only some problems are the photo's own. */
function failure(problem) {
  return problem?.name === "photo" ? "Cannot be read" : problem && (problem.title ?? "No answer");
}

/** Say what is known of one photo of the list by now. */
export function showEntry(entry) {
  if (!entry.button) return;
  const [best] = entry.plain?.top ?? [];
  entry.words.replaceChildren(
    el("b", { textContent: best?.label ?? failure(entry.problem) ?? "…", title: best?.label ?? entry.problem?.detail ?? "" }),
    el("span", { textContent: best ? percent(best.probability) : "" }),
  );
  entry.button.setAttribute("aria-label", `${entry.file.name}: ${best ? `${best.label}, ${percent(best.probability)}` : entry.words.textContent}`);
}

/** Mark the one that is looked at. */
export function markEntry(entries, chosen) {
  for (const entry of entries) entry.button?.setAttribute("aria-pressed", String(entry === chosen));
}
