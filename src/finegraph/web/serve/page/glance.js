// The answer at a glance: a bar at the top of the window while the answer is scrolled out of view. `preserveScroll` keeps
// the kinds in place while the answer above them changes its height.

import { byId } from "/shared/elements.js";

const ONE_COLUMN = matchMedia("(max-width: 899px)");
let observer = null;

/** Show an answer in the bar. */
export function showGlance(first, rest, isContradicted) {
  const glance = byId("glance");
  glance.querySelector("b").textContent = first;
  glance.querySelector("span").textContent = rest;
  glance.classList.toggle("against", isContradicted);
  byId("glance-picture").src = byId("picture").src;
  observer ??= observe();
}

function observe() {
  const created = new IntersectionObserver(([{ isIntersecting, boundingClientRect }]) => {
    byId("glance").hidden = isIntersecting || boundingClientRect.top > 0 || byId("result").hidden;
  });
  created.observe(byId("sentence"));
  byId("glance").addEventListener("click", () => byId("answer").scrollIntoView({ block: "start" }));
  return created;
}

/** Show another answer to the same photo without moving the kinds in the window. */
export function preserveScroll(show) {
  const kinds = byId("kinds");
  const before = kinds.getBoundingClientRect().top;
  for (const id of ["answer", "question"]) {
    // At the top of the page scrolling cannot make up for a shorter answer, so sections never shrink.
    if (ONE_COLUMN.matches) byId(id).style.minHeight = `${byId(id).offsetHeight}px`;
  }
  show();
  if (!kinds.hidden) window.scrollBy({ top: kinds.getBoundingClientRect().top - before, behavior: "instant" });
}

/** Let sections shrink again, for another photo. */
export function resetHeights() {
  for (const id of ["answer", "question"]) byId(id).style.minHeight = "";
}
