// The answer at a glance: a bar at the top of the window while the answer itself is out of sight. And what is below the
// answer stays where it is in the window, however tall the answer becomes.

import { byId } from "./dom.js";

const ONE_COLUMN = matchMedia("(max-width: 899px)");
let watching = null;

/** Put the answer into the bar. */
export function showGlance(first, rest, against) {
  const glance = byId("glance");
  glance.querySelector("b").textContent = first;
  glance.querySelector("span").textContent = rest;
  glance.classList.toggle("against", against);
  byId("glance-picture").src = byId("picture").src;
  watching ??= watch();
}

function watch() {
  const observer = new IntersectionObserver(([{ isIntersecting, boundingClientRect }]) => {
    byId("glance").hidden = isIntersecting || boundingClientRect.top > 0 || byId("result").hidden;
  });
  observer.observe(byId("sentence"));
  byId("glance").addEventListener("click", () => byId("answer").scrollIntoView({ block: "start" }));
  return observer;
}

/** Show another answer to the same photo, so that the kinds stay where they are in the window. */
export function keepPlaces(show) {
  const kinds = byId("kinds");
  const before = kinds.getBoundingClientRect().top;
  for (const id of ["answer", "question"]) {
    // Where the window is at its top nothing can scroll down to make up for an answer that is shorter.
    if (ONE_COLUMN.matches) byId(id).style.minHeight = `${byId(id).offsetHeight}px`;
  }
  show();
  if (!kinds.hidden) window.scrollBy({ top: kinds.getBoundingClientRect().top - before, behavior: "instant" });
}

/** Another photo: heights are free again. */
export function freePlaces() {
  for (const id of ["answer", "question"]) byId(id).style.minHeight = "";
}
