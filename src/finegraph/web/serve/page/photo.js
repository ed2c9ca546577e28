// Photos as input: chosen, taken, dropped, pasted, or a sample.

import { byId, el } from "/shared/elements.js";

/** Call `onPhotos(files)` with all photos that are chosen together. */
export function watchPhotos(onPhotos) {
  const give = (files) => {
    if (files.length) onPhotos([...files]);
  };
  for (const [button, input] of [["choose", "file"], ["take", "camera"]]) {
    byId(button).addEventListener("click", () => byId(input).click());
    byId(input).addEventListener("change", (event) => {
      give(event.target.files);
      event.target.value = ""; // the same file can be chosen again
    });
  }
  const drop = byId("drop");
  let depth = 0;
  const over = (change) => {
    depth = Math.max(0, depth + change);
    drop.classList.toggle("over", depth > 0);
  };
  document.addEventListener("dragenter", () => over(1));
  document.addEventListener("dragleave", () => over(-1));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    over(-depth);
    give(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    give(event.clipboardData.files);
  });
}

let shown = null;

export function showPhoto(file) {
  if (shown) URL.revokeObjectURL(shown);
  shown = URL.createObjectURL(file);
  byId("picture").onerror = () => { byId("photo").hidden = true; }; // browsers show fewer formats than the server reads
  byId("picture").src = shown;
  byId("photo").hidden = false;
  byId("choose").textContent = "Another photo";
  document.body.classList.add("answered");
}

let buttons = new Map(); // sample -> button

/** Show the samples as buttons; `onSelect(sample)` resolves when the photo is loaded or has failed. */
export function showSamples(samples, onSelect) {
  const toLabel = samples.some((sample) => sample.to_label);
  if (toLabel) {
    byId("samples").setAttribute("aria-label", "Photos to label");
    byId("samples").querySelector("h2").textContent = "To label, most informative first";
  }
  buttons = new Map();
  const list = byId("samples").querySelector("ul");
  list.replaceChildren(
    ...samples.map((sample) => {
      const picture = el("img", { src: sample.thumbnail, alt: `${toLabel ? "Label" : "Try"} ${sample.name}`, loading: "lazy" });
      const load = async () => {
        button.setAttribute("aria-busy", "true");
        await onSelect(sample);
        button.removeAttribute("aria-busy");
      };
      const button = el("button", { type: "button", onclick: load }, picture);
      buttons.set(sample, button);
      return el("li", {}, button);
    }),
  );
  byId("samples").hidden = samples.length === 0;
}

/** Mark the selected sample and those that are labelled. */
export function markSamples(current, isLabelled) {
  for (const [sample, button] of buttons) {
    button.setAttribute("aria-pressed", String(sample === current));
    button.classList.toggle("labelled", isLabelled(sample));
    button.title = isLabelled(sample) ? "labelled" : "";
  }
}
