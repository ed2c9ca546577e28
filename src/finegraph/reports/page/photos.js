// The viewer: a list of photos, and one photo in full. It is a dialog, so Escape closes it and the focus returns.
const viewer = {
  dialog: document.getElementById("viewer"),
  body: document.getElementById("viewer-body"),
  title: document.getElementById("viewer-title"),
  back: document.getElementById("viewer-back"),
  list: null,
};
const CHUNK = 60;
const BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";

function picture(photo, shots, at) {
  if (!page.pictures[photo]) return el("div", { class: "no-photo" }, "no picture stored");
  return enlargeButton(el("img", { src: page.pictures[photo], alt: "" }), evaluatedWords(photo), shots, at);
}

const evaluatedWords = (photo) => `Evaluated photo of ${page.truth[photo] < 0 ? "an unknown label" : page.fine[page.truth[photo]]}`;

// The shot of an evaluated photo; without a picture it is blank.
function photoShot(photo, run) {
  return {
    src: page.pictures[photo] || BLANK, alt: evaluatedWords(photo), photo,
    caption: () => [...answerWords(photo, run), " · ", bidi(page.names[photo])],
  };
}

function answerWords(photo, run) {
  const answers = page.runs[run], truth = page.truth[photo], right = answers.predicted[photo] === truth;
  return [
    el("span", null, truth < 0 ? null : el("span", { class: `mark ${right ? "yes" : "no"}` }, right ? "✓ " : "✗ "),
      bidi(page.fine[answers.predicted[photo]]), " ", el("span", { class: "number" }, percentText(answers.topProbability[photo * answers.places]))),
    ...(right || truth < 0 ? [] : [" ", el("span", null, "truth: ", bidi(page.fine[truth]))]),
  ];
}

function openViewer() {
  if (!viewer.dialog.open) viewer.dialog.showModal();
  viewer.dialog.scrollTop = 0;
  viewer.title.focus();
}

// Show a list in the viewer; `list` is { title, reopen }, where `reopen` returns to it from one of its photos.
function openList(list, ...body) {
  viewer.list = list;
  viewer.back.hidden = true;
  viewer.title.replaceChildren(...list.title.map((part) => (part.cloneNode ? part.cloneNode(true) : part)));
  viewer.body.replaceChildren(...body);
  openViewer();
}

function showPhotos(title, photos, run) {
  const shots = () => photos.map((photo) => photoShot(photo, run));
  openList({ title, reopen: () => showPhotos(title, photos, run) },
    el("p", { class: "note" }, plural(photos.length, "photo")), ...photoGrid(photos, run, shots, 0));
}

const cardWords = (photo, run) => [...answerWords(photo, run), el("span", { class: "file" }, bidi(page.names[photo]))];

// Photos as cards, some at a time; in `shots` of the lightbox they begin at `start`.
function photoGrid(photos, run, shots, start, words = cardWords) {
  const grid = el("ul", { class: "grid" });
  const more = el("button", { type: "button" }, "Show more");
  let shown = 0;
  const grow = () => {
    photos.slice(shown, shown + CHUNK).forEach((photo, place) => grid.append(el("li", null, photoCard(photo, run, shots, start + shown + place, words))));
    shown = Math.min(shown + CHUNK, photos.length);
    more.hidden = shown >= photos.length;
  };
  more.addEventListener("click", grow);
  grow();
  return [grid, more];
}

function photoCard(photo, run, shots, at, words) {
  const wrong = page.truth[photo] >= 0 && page.runs[run].predicted[photo] !== page.truth[photo];
  return el("div", { class: "photo" }, picture(photo, shots, at), ...words(photo, run),
    el("p", { class: "actions" },
      el("button", { type: "button", class: "about", onclick: () => showPhoto(photo) }, "All answers"),
      wrong ? el("button", { type: "button", class: "doubt", onclick: () => showPhoto(photo, true) }, "Wrong label?") : null));
}

function showPhoto(photo, doubt = false) {
  const truth = page.truth[photo];
  viewer.back.hidden = viewer.list === null;
  viewer.title.replaceChildren(truth < 0 ? "label not known" : bidi(page.fine[truth]));
  viewer.body.replaceChildren(el("div", { class: "detail" },
    el("div", null, picture(photo, () => [photoShot(photo, page.other)], 0), el("p", { class: "file" }, bidi(page.names[photo]))),
    el("div", null, doubt ? wrongLabel(photo, true) : null, ...page.runs.map((run) => runDetail(run, photo)), doubt ? null : wrongLabel(photo, false))));
  openViewer();
}

function runDetail(run, photo) {
  const truth = page.truth[photo];
  const rows = [];
  for (let place = 0; place < run.places; place += 1) {
    const label = run.top[photo * run.places + place];
    rows.push(shareRow(page.fine[label], run.topProbability[photo * run.places + place], label === truth));
  }
  const level = run.sure.level[photo];
  const kind = page.kinds.find((one, place) => one.name === run.sources[level] && run.kinds[place]);
  const ends = run.sure.ranges[photo];
  const stated = () => (ends ? ends.map((end) => kind.labels[end]).join(" to ") : kind.labels[run.sure.label[photo]]);
  const sure = level < 0 ? "nothing is sure enough"
    : level === 0 ? page.fine[run.sure.label[photo]]
      : kind ? `${kind.name}: ${stated()}`
        : ends ? `${run.sources[level]}: ${ends.map((end) => Number(end.toPrecision(4))).join(" to ")}` : `the ${run.sources[level]}`;
  return el("section", null,
    el("h3", null, bidi(run.name), " ",
      truth < 0 ? null : el("small", null, run.rank[photo] === 1 ? "right" : `the right label is number ${run.rank[photo]}`)),
    el("ol", null, ...rows),
    el("p", { class: "note" }, "sure answer: ", bidi(sure),
      level < 0 ? "" : ` (${percentText(run.sure.probability[photo])})`),
    kindList(run, photo), odds(run, photo));
}

function shareRow(label, share, right) {
  const bar = el("i");
  bar.style.width = `${100 * share}%`;
  return el("li", { class: right ? "is-right" : null },
    el("span", null, right ? el("span", { class: "mark yes" }, "✓ ") : null, bidi(label)),
    el("span", { class: "number" }, percentText(share)), el("span", { class: "rail-bar" }, bar));
}

function kindList(run, photo) {
  let places = page.kinds.map((_, place) => place).filter((place) => run.kinds[place]);
  if (places.length > 12) {
    const interest = (place) => (run.kinds[place].right[photo] === 0 ? 0 : 1) + run.kinds[place].probability[photo];
    places = places.sort((one, two) => interest(one) - interest(two)).slice(0, 12);
  }
  return el("dl", { class: "kinds" }, ...places.map((place) => {
    const answer = run.kinds[place], kind = page.kinds[place], right = answer.right[photo];
    const truth = kind.truth[photo];
    return el("div", null, el("dt", null, bidi(kind.name)),
      el("dd", null, el("span", { class: `mark ${right === 1 ? "yes" : right === 0 ? "no" : "open"}` }, right === 1 ? "✓ " : right === 0 ? "✗ " : "· "),
        bidi(kind.labels[answer.predicted[photo]]), " ", el("span", { class: "number" }, percentText(answer.probability[photo])),
        right === 0 && truth >= 0 ? el("span", { class: "by" }, " truth: ", bidi(kind.labels[truth])) : null));
  }));
}

function odds(run, photo) {
  const parts = run.explained[photo];
  if (!parts) return null;
  const largest = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-9);
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  const cells = parts.flatMap(([source, value]) => {
    const bar = el("i", { class: value < 0 ? "minus" : "plus" });
    bar.style.width = `${100 * Math.abs(value) / largest}%`;
    const half = value < 0 ? [bar, el("span")] : [el("span"), bar];
    const label = source < 0 ? "all other kinds" : source === 0 ? "fine label" : run.sources[source];
    return [bidi(label), el("span", { class: "track" }, ...half), el("span", { class: "number" }, `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`)];
  });
  const first = page.fine[run.top[photo * run.places]], second = page.fine[run.top[photo * run.places + 1]];
  return el("div", { class: "why-list" },
    el("h4", null, "Why ", bidi(first), " rather than ", bidi(second), `: log odds ${total < 0 ? "−" : "+"}${Math.abs(total).toFixed(2)}`),
    el("div", { class: "odds" }, ...cells));
}
