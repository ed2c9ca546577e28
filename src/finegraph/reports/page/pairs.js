// A confusion: its photos in the middle, training photos of the true and the answered label at the sides.
const MAX_TRAINING_PHOTOS = 4;

// The fine labels of a label of a level: the label itself, or the fine labels below a coarse label.
function fineOf(level, label) {
  if (level === 0) return [label];
  const parents = page.kinds[level - 1].parents;
  return [...parents.keys()].filter((fine) => parents[fine] === label);
}

// Training photos of fine labels, one of each before a second one of any.
function trainingOf(labels) {
  const own = labels.map((fine) => (page.training[fine] || []).map((one) => ({ ...one, fine })));
  const rounds = Math.max(0, ...own.map((listed) => listed.length));
  return Array.from({ length: rounds }, (_, round) => own.flatMap((listed) => listed.slice(round, round + 1))).flat().slice(0, MAX_TRAINING_PHOTOS);
}

function trainingShot(one) {
  return {
    src: one.picture, alt: `Training photo of ${page.fine[one.fine]}`,
    caption: () => [el("strong", null, bidi(page.fine[one.fine])), ` · training photo · `, bidi(one.name)],
  };
}

function trainingSide(words, label, labels, side, shots, start) {
  const shown = trainingOf(labels);
  const all = page.train ? labels.reduce((sum, fine) => sum + page.train[fine], 0) : null;
  const count = all === null ? "" : shown.length < all ? `${shown.length} of ${plural(all, "training photo")}` : plural(all, "training photo");
  return el("div", { class: `side ${side}`, role: "group", "aria-label": `Training photos of ${label}` },
    el("h3", null, el("small", null, words), bidi(label)),
    el("p", { class: "note" }, shown.length ? count : `${count ? `${count}, ` : ""}no picture stored`),
    el("ul", null, ...shown.map((one, place) => el("li", null,
      enlargeButton(el("img", { src: one.picture, alt: "" }), trainingShot(one).alt, shots, start + place)))));
}

// The caption of a photo of a confusion: the probability of the answer, and the file.
function pairWords(photo, run) {
  const answers = page.runs[run];
  return [el("span", { class: "number" }, percentText(answers.topProbability[photo * answers.places])),
    el("span", { class: "file" }, bidi(page.names[photo].split("/").pop()))];
}

// `pair` is { level, truth, answer, photos }; `truth` and `answer` are numbers of labels of the level.
function showPair(pair, run) {
  const labels = pair.level === 0 ? page.fine : page.kinds[pair.level - 1].labels;
  const title = ["true: ", bidi(labels[pair.truth]), ", answered: ", bidi(labels[pair.answer])];
  const fine = [pair.truth, pair.answer].map((label) => fineOf(pair.level, label));
  const training = fine.map((own) => trainingOf(own).map(trainingShot));
  const shots = () => [...training[0], ...pair.photos.map((photo) => photoShot(photo, run)), ...training[1]];
  if (!Object.keys(page.training).length) { showPhotos(title, pair.photos, run); return; }
  const middle = el("div", { class: "middle" }, el("p", { class: "note" }, plural(pair.photos.length, "photo")),
    ...photoGrid(pair.photos, run, shots, training[0].length, pair.level === 0 ? pairWords : cardWords));
  openList({ title, reopen: () => showPair(pair, run) }, el("div", { class: "pair" },
    trainingSide("truth ", labels[pair.truth], fine[0], "left", shots, 0), middle,
    trainingSide("answer ", labels[pair.answer], fine[1], "right", shots, training[0].length + pair.photos.length)));
}
