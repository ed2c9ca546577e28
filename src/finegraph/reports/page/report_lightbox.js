// The lightbox: enlarged pictures one after another, by buttons, arrow keys or a swipe. Escape closes it.
const lightbox = {
  dialog: document.getElementById("lightbox"),
  picture: el("img", { id: "lightbox-image" }),
  caption: document.getElementById("lightbox-caption"),
  count: document.getElementById("lightbox-count"),
  shots: [], at: 0, from: null,
};
const MAX_SCALE = 3; // a small picture looks grainy beyond that

// A shot is { src, alt, caption, photo }: `caption` returns the text below it, `photo` is the number of an evaluated photo.
function openLightbox(shots, at) {
  Object.assign(lightbox, { shots, at });
  drawLightbox();
  if (!lightbox.dialog.open) lightbox.dialog.showModal();
}

function drawLightbox() {
  const shot = lightbox.shots[lightbox.at];
  lightbox.picture.src = shot.src;
  lightbox.picture.alt = shot.alt;
  lightbox.caption.replaceChildren(...shot.caption(), ...(shot.photo === undefined ? [] : [" ", el("button", {
    type: "button", onclick: () => { lightbox.dialog.close(); showPhoto(shot.photo); },
  }, "All answers")]));
  lightbox.count.textContent = `${lightbox.at + 1} of ${lightbox.shots.length}`;
  for (const [id, there] of [["lightbox-back", lightbox.at > 0], ["lightbox-on", lightbox.at < lightbox.shots.length - 1]]) {
    document.getElementById(id).disabled = !there;
  }
}

function fitLightbox() {
  const box = lightbox.picture.parentElement.getBoundingClientRect();
  const scale = Math.min(MAX_SCALE, box.width / lightbox.picture.naturalWidth, box.height / lightbox.picture.naturalHeight);
  lightbox.picture.style.width = `${Math.floor(lightbox.picture.naturalWidth * scale)}px`;
}

function moveLightbox(to) {
  const next = Math.max(0, Math.min(lightbox.shots.length - 1, to));
  if (next === lightbox.at) return;
  lightbox.at = next;
  drawLightbox();
}

function lightboxKeys(event) {
  const moves = { ArrowLeft: lightbox.at - 1, ArrowRight: lightbox.at + 1, Home: 0, End: lightbox.shots.length - 1 };
  if (!(event.key in moves)) return;
  moveLightbox(moves[event.key]);
  event.preventDefault();
}

// A picture that opens the lightbox; `shots` is a function, so that shots are created only when needed.
function enlargeButton(content, words, shots, at) {
  return el("button", { type: "button", class: "enlarge", "aria-label": `Enlarge: ${words}`, onclick: () => openLightbox(shots(), at) }, content);
}

function startLightbox() {
  lightbox.dialog.querySelector(".lightbox-stage").append(lightbox.picture);
  lightbox.picture.addEventListener("load", fitLightbox);
  window.addEventListener("resize", () => { if (lightbox.dialog.open) fitLightbox(); });
  lightbox.dialog.addEventListener("keydown", lightboxKeys);
  lightbox.dialog.addEventListener("click", (event) => { if (event.target === lightbox.dialog || event.target.classList.contains("lightbox-stage")) lightbox.dialog.close(); });
  document.getElementById("lightbox-close").addEventListener("click", () => lightbox.dialog.close());
  document.getElementById("lightbox-back").addEventListener("click", () => moveLightbox(lightbox.at - 1));
  document.getElementById("lightbox-on").addEventListener("click", () => moveLightbox(lightbox.at + 1));
  lightbox.dialog.addEventListener("touchstart", (event) => { lightbox.from = event.touches[0].clientX; }, { passive: true });
  lightbox.dialog.addEventListener("touchend", (event) => {
    const moved = event.changedTouches[0].clientX - lightbox.from;
    if (Math.abs(moved) > 40) moveLightbox(lightbox.at + (moved < 0 ? 1 : -1));
  });
}
