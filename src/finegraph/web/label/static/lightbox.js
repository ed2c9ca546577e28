// The lightbox: enlarged photos. Arrow keys or a swipe move to the next one; Escape, Space or a tap beside the photo closes it.

import { button, el, fill } from "/shared/elements.js";
import { bindings, withKey } from "./keys.js";

/** The minimum length of a swipe, in pixels. */
const MIN_SWIPE = 40;

/**
 * Enlarge photos.
 *
 * @param {{number: string, key: string}[]} photos
 * @param {number} at the index of the first one
 * @param {{title: string, seen?: (index: number) => void, closed?: () => void, label?: (index: number) => void}} options
 *   `seen` is called with the shown photo, `closed` after closing; `label` adds a button to label the photo
 */
export function openPhotos(photos, at, { title, seen = () => {}, closed = () => {}, label }) {
  const picture = el("img", { draggable: false });
  const caption = el("div", { class: "lightbox-caption" });
  const move = (step) => show(at + step);
  const back = button("‹", () => move(-1), { class: "step back", "aria-label": "Previous photo" });
  const on = button("›", () => move(1), { class: "step on", "aria-label": "Next photo" });
  const close = () => dialog.close();
  const stage = el("div", { class: "stage", onclick: (event) => event.target === stage && close() }, picture);
  const dialog = el("dialog", { class: "lightbox", "aria-label": `Photos of ${title}` }, stage, back, on, caption, button("×", close, { class: "close", "aria-label": "Close" }));
  const labelIt = () => {
    close();
    label(at);
  };

  function show(index) {
    if (index < 0 || index >= photos.length) return;
    at = index;
    const { number, key } = photos[at];
    Object.assign(picture, { src: `/photos/${number}/large`, alt: key });
    Object.assign(back, { disabled: at === 0 });
    Object.assign(on, { disabled: at === photos.length - 1 });
    const action = label && button(withKey("Label this photo alone", "photos"), labelIt, { class: "small" });
    fill(caption, el("strong", {}, title), el("span", { title: key }, key.split("/").at(-1)), el("span", { class: "place" }, `${at + 1} of ${photos.length}`), action);
    for (const near of [photos[at - 1], photos[at + 1]]) if (near) new Image().src = `/photos/${near.number}/large`;
    seen(at);
  }

  const keys = { ArrowRight: () => move(1), ArrowLeft: () => move(-1), Home: () => show(0), End: () => show(photos.length - 1) };
  dialog.addEventListener("keydown", (event) => {
    const { enlarge, photos: alone } = bindings();
    const pressed = event.target.closest("button") && [" ", "Enter"].includes(event.key); // the key presses the button
    const action = pressed ? undefined : event.key === enlarge ? close : event.key === alone ? label && labelIt : keys[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation(); // the page must not handle it after closing
    action();
  });
  let from;
  stage.addEventListener("pointerdown", (event) => (from = event.isPrimary ? event.clientX : undefined));
  stage.addEventListener("pointerup", (event) => {
    const moved = from === undefined ? 0 : event.clientX - from;
    from = undefined;
    if (Math.abs(moved) > MIN_SWIPE) move(moved < 0 ? 1 : -1);
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.tabIndex = -1;
  dialog.focus(); // otherwise Space would press a button
  show(at);
}
