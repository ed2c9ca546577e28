// The large view: one picture after another, by buttons, arrow keys or a swipe. Escape goes back to where it was opened.
const light = {
  dialog: document.getElementById("light"),
  image: el("img", { id: "light-image" }),
  caption: document.getElementById("light-caption"),
  count: document.getElementById("light-count"),
  shots: [], at: 0, from: null,
};
const ENLARGED = 3; // beyond that a small picture shows its grains only

// A shot is { src, alt, caption, photo }: the words below it, and which evaluated photo it is, if it is one.
function openLight(shots, at) {
  Object.assign(light, { shots, at });
  drawLight();
  if (!light.dialog.open) light.dialog.showModal();
}

function drawLight() {
  const shot = light.shots[light.at];
  light.image.src = shot.src;
  light.image.alt = shot.alt;
  light.caption.replaceChildren(...shot.caption(), ...(shot.photo === undefined ? [] : [" ", el("button", {
    type: "button", onclick: () => { light.dialog.close(); showPhoto(shot.photo); },
  }, "All answers")]));
  light.count.textContent = `${light.at + 1} of ${light.shots.length}`;
  for (const [id, there] of [["light-back", light.at > 0], ["light-on", light.at < light.shots.length - 1]]) {
    document.getElementById(id).disabled = !there;
  }
}

function fitLight() {
  const box = light.image.parentElement.getBoundingClientRect();
  const scale = Math.min(ENLARGED, box.width / light.image.naturalWidth, box.height / light.image.naturalHeight);
  light.image.style.width = `${Math.floor(light.image.naturalWidth * scale)}px`;
}

function moveLight(to) {
  const next = Math.max(0, Math.min(light.shots.length - 1, to));
  if (next === light.at) return;
  light.at = next;
  drawLight();
}

function lightKeys(event) {
  const moves = { ArrowLeft: light.at - 1, ArrowRight: light.at + 1, Home: 0, End: light.shots.length - 1 };
  if (!(event.key in moves)) return;
  moveLight(moves[event.key]);
  event.preventDefault();
}

// A picture that opens the large view among those beside it; `shots` is a function, so that nothing is made before it is needed.
function enlarging(image, words, shots, at) {
  return el("button", { type: "button", class: "enlarge", "aria-label": `Enlarge: ${words}`, onclick: () => openLight(shots(), at) }, image);
}

function startLight() {
  light.dialog.querySelector(".light-stage").append(light.image);
  light.image.addEventListener("load", fitLight);
  window.addEventListener("resize", () => { if (light.dialog.open) fitLight(); });
  light.dialog.addEventListener("keydown", lightKeys);
  light.dialog.addEventListener("click", (event) => { if (event.target === light.dialog || event.target.classList.contains("light-stage")) light.dialog.close(); });
  document.getElementById("light-close").addEventListener("click", () => light.dialog.close());
  document.getElementById("light-back").addEventListener("click", () => moveLight(light.at - 1));
  document.getElementById("light-on").addEventListener("click", () => moveLight(light.at + 1));
  light.dialog.addEventListener("touchstart", (event) => { light.from = event.touches[0].clientX; }, { passive: true });
  light.dialog.addEventListener("touchend", (event) => {
    const moved = event.changedTouches[0].clientX - light.from;
    if (Math.abs(moved) > 40) moveLight(light.at + (moved < 0 ? 1 : -1));
  });
}
