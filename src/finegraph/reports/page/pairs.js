// A confusion: the photos in the middle, training photos of the true label and of the answered one beside them.
const BESIDE = 4;

// Fine labels of a level: the label itself, or those that have it as their coarse label.
function fineOf(level, label) {
  if (level === 0) return [label];
  const parents = page.kinds[level - 1].parents;
  return [...parents.keys()].filter((fine) => parents[fine] === label);
}

// Training photos of some fine labels, one of each before a second one of any.
function trainingOf(labels) {
  const own = labels.map((fine) => (page.training[fine] || []).map((one) => ({ ...one, fine })));
  const turns = Math.max(0, ...own.map((listed) => listed.length));
  return Array.from({ length: turns }, (_, turn) => own.flatMap((listed) => listed.slice(turn, turn + 1))).flat().slice(0, BESIDE);
}

function trainingShot(one) {
  return {
    src: one.picture, alt: `Training photo of ${page.fine[one.fine]}`,
    caption: () => [el("strong", null, name_(page.fine[one.fine])), ` · training photo · `, name_(one.name)],
  };
}

function trainingSide(words, label, labels, side, shots, start) {
  const shown = trainingOf(labels);
  const all = page.train ? labels.reduce((sum, fine) => sum + page.train[fine], 0) : null;
  const count = all === null ? "" : shown.length < all ? `${shown.length} of ${plural(all, "training photo")}` : plural(all, "training photo");
  return el("div", { class: `side ${side}`, role: "group", "aria-label": `Training photos of ${label}` },
    el("h3", null, el("small", null, words), name_(label)),
    el("p", { class: "note" }, shown.length ? count : `${count ? `${count}, ` : ""}no picture kept`),
    el("ul", null, ...shown.map((one, place) => el("li", null,
      enlarging(el("img", { src: one.picture, alt: "" }), trainingShot(one).alt, shots, start + place)))));
}

// What differs between photos of one confusion: how sure the answer was, and the file.
function pairWords(photo, run) {
  const answers = page.runs[run];
  return [el("span", { class: "number" }, percent(answers.topProbability[photo * answers.places])),
    el("span", { class: "file" }, name_(page.names[photo].split("/").pop()))];
}

// `pair` is { level, truth, answer, photos }: labels are numbers of the level.
function showPair(pair, run) {
  const labels = pair.level === 0 ? page.fine : page.kinds[pair.level - 1].labels;
  const title = ["true: ", name_(labels[pair.truth]), ", answered: ", name_(labels[pair.answer])];
  const fine = [pair.truth, pair.answer].map((label) => fineOf(pair.level, label));
  const training = fine.map((own) => trainingOf(own).map(trainingShot));
  const shots = () => [...training[0], ...pair.photos.map((photo) => photoShot(photo, run)), ...training[1]];
  if (!Object.keys(page.training).length) { showPhotos(title, pair.photos, run); return; }
  const middle = el("div", { class: "middle" }, el("p", { class: "note" }, plural(pair.photos.length, "photo")),
    ...photoGrid(pair.photos, run, shots, training[0].length, pair.level === 0 ? pairWords : cardWords));
  openList({ title, again: () => showPair(pair, run) }, el("div", { class: "pair" },
    trainingSide("truth ", labels[pair.truth], fine[0], "left", shots, 0), middle,
    trainingSide("answer ", labels[pair.answer], fine[1], "right", shots, training[0].length + pair.photos.length)));
}
