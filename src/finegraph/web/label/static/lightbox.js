// Photos as large as the window: arrows or a swipe go on to the next, Escape, Space or a touch beside it closes.

import { button, el, fill } from "./dom.js";
import { bindings, withKey } from "./keys.js";

/** How far a finger moves, in pixels, so that it is a swipe. */
const SWIPE = 40;

/**
 * Show photos large.
 *
 * @param {{number: string, key: string}[]} photos
 * @param {number} at which one first
 * @param {{title: string, seen?: (index: number) => void, closed?: () => void, label?: (index: number) => void}} options
 *   `seen` is told which photo is shown, `label` is offered as what to do with one
 */
export function openPhotos(photos, at, { title, seen = () => {}, closed = () => {}, label }) {
  const image = el("img", { draggable: "false" });
  const caption = el("div", { class: "lightbox-caption" });
  const turn = (step) => show(at + step);
  const back = button("‹", () => turn(-1), { class: "turn back", "aria-label": "Previous photo" });
  const on = button("›", () => turn(1), { class: "turn on", "aria-label": "Next photo" });
  const close = () => dialog.close();
  const stage = el("div", { class: "stage", onclick: (event) => event.target === stage && close() }, image);
  const dialog = el("dialog", { class: "lightbox", "aria-label": `Photos of ${title}` }, stage, back, on, caption, button("×", close, { class: "close", "aria-label": "Close" }));
  const labelIt = () => {
    close();
    label(at);
  };

  function show(index) {
    if (index < 0 || index >= photos.length) return;
    at = index;
    const { number, key } = photos[at];
    Object.assign(image, { src: `/photos/${number}/large`, alt: key });
    Object.assign(back, { disabled: at === 0 });
    Object.assign(on, { disabled: at === photos.length - 1 });
    const action = label && button(withKey("Label this photo alone", "photos"), labelIt, { class: "small" });
    fill(caption, el("strong", {}, title), el("span", { title: key }, key.split("/").at(-1)), el("span", { class: "place" }, `${at + 1} of ${photos.length}`), action);
    for (const near of [photos[at - 1], photos[at + 1]]) if (near) new Image().src = `/photos/${near.number}/large`;
    seen(at);
  }

  const keys = { ArrowRight: () => turn(1), ArrowLeft: () => turn(-1), Home: () => show(0), End: () => show(photos.length - 1) };
  dialog.addEventListener("keydown", (event) => {
    const { enlarge, photos: alone } = bindings();
    const pressed = event.target.closest("button") && [" ", "Enter"].includes(event.key); // it presses that button
    const action = pressed ? undefined : event.key === enlarge ? close : event.key === alone ? label && labelIt : keys[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation(); // once it is closed, keys are for the page
    action();
  });
  let from;
  stage.addEventListener("pointerdown", (event) => (from = event.isPrimary ? event.clientX : undefined));
  stage.addEventListener("pointerup", (event) => {
    const moved = from === undefined ? 0 : event.clientX - from;
    from = undefined;
    if (Math.abs(moved) > SWIPE) turn(moved < 0 ? 1 : -1);
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.tabIndex = -1;
  dialog.focus(); // rather than a button, which Space would press
  show(at);
}
