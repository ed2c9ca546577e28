// Start: show the parts that need scripts, and connect the buttons of the page.
const CHANGES = {
  fixed: ["fixed by ", (base, own, truth) => base !== truth && own === truth],
  broken: ["broken by ", (base, own, truth) => base === truth && own !== truth],
  moved: ["still wrong, with a different answer, in ", (base, own, truth) => base !== truth && own !== truth && base !== own],
};

function startButtons() {
  for (const button of document.querySelectorAll("[data-photo]")) {
    button.addEventListener("click", () => { viewer.list = null; showPhoto(Number(button.dataset.photo), "doubt" in button.dataset); });
  }
  for (const group of document.querySelectorAll(".card, .worst, .learnt-cell, .groups, .tree")) {
    const buttons = [...group.querySelectorAll(".enlarge")];
    for (const button of buttons) if (page.pictures[button.dataset.row]) button.querySelector("img").src = page.pictures[button.dataset.row];
    const shots = () => buttons.map((button) => {
      const picture = button.querySelector("img"), row = button.dataset.row;
      return row === undefined ? { src: picture.src, alt: picture.alt, caption: () => [bidi(picture.alt)] }
        : { ...photoShot(Number(row), page.other), src: page.pictures[row] || picture.src };
    });
    buttons.forEach((button, place) => button.addEventListener("click", () => openLightbox(shots(), place)));
  }
  for (const button of document.querySelectorAll("[data-changed]")) {
    button.addEventListener("click", () => {
      const [words, fits] = CHANGES[button.dataset.changed];
      const run = Number(button.dataset.run);
      const base = page.runs[page.baseline].predicted, own = page.runs[run].predicted;
      const photos = [...page.truth.keys()].filter((photo) => page.truth[photo] >= 0 && fits(base[photo], own[photo], page.truth[photo]));
      showPhotos([words, bidi(page.runs[run].name)], photos, run);
    });
  }
  for (const button of document.querySelectorAll("[data-photos]")) {
    button.addEventListener("click", () => showPhotos([button.dataset.title], button.dataset.photos.split(",").map(Number), page.other));
  }
  document.getElementById("viewer-close").addEventListener("click", () => viewer.dialog.close());
  viewer.back.addEventListener("click", () => viewer.list.reopen());
  viewer.dialog.addEventListener("click", (event) => { if (event.target === viewer.dialog) viewer.dialog.close(); });
}

// For printing, unfold all details and show more rows.
let foldedDetails = [], rowsBefore = 0;
window.addEventListener("beforeprint", () => {
  foldedDetails = [...document.querySelectorAll("details:not([open])")];
  for (const one of foldedDetails) one.open = true;
  if (page) showRows(Math.max(rowsBefore = classes.shown, MAX_ROWS_ON_PAPER));
});
window.addEventListener("afterprint", () => {
  for (const one of foldedDetails) one.open = false;
  if (page) showRows(rowsBefore);
});
function showRows(count) {
  classes.shown = count;
  drawClasses();
}

if (page) {
  for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
  startMatrix();
  startClasses();
  startButtons();
  startLightbox();
}
