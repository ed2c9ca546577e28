// The viewer: a list of photos, and one photo in full. It is a dialog, so Escape closes it and the focus returns.
const viewer = {
  dialog: document.getElementById("viewer"),
  body: document.getElementById("viewer-body"),
  title: document.getElementById("viewer-title"),
  back: document.getElementById("viewer-back"),
  list: null,
};
const CHUNK = 60;

function picture(photo, large) {
  const data = page.thumbs[photo];
  if (!data) return el("div", { class: "no-photo" }, "no picture kept");
  const truth = page.truth[photo] < 0 ? "an unknown label" : page.fine[page.truth[photo]];
  return el("img", { src: `data:image/jpeg;base64,${data}`, alt: large ? `Evaluated photo of ${truth}` : "" });
}

function openViewer() {
  if (!viewer.dialog.open) viewer.dialog.showModal();
  viewer.dialog.scrollTop = 0;
  viewer.title.focus();
}

function showPhotos(title, photos, run) {
  viewer.list = { title, photos, run };
  viewer.back.hidden = true;
  viewer.title.replaceChildren(...title);
  const grid = el("ul", { class: "grid" });
  const more = el("button", { type: "button" }, "Show more");
  let shown = 0;
  const grow = () => {
    for (const photo of photos.slice(shown, shown + CHUNK)) grid.append(el("li", null, photoButton(photo, run)));
    shown = Math.min(shown + CHUNK, photos.length);
    more.hidden = shown >= photos.length;
  };
  more.addEventListener("click", grow);
  grow();
  viewer.body.replaceChildren(el("p", { class: "note" }, plural(photos.length, "photo")), grid, more);
  openViewer();
}

function photoButton(photo, run) {
  const answers = page.runs[run];
  const truth = page.truth[photo];
  const right = answers.predicted[photo] === truth;
  const share = answers.topProbability[photo * answers.places];
  return el("button", { type: "button", class: "photo", onclick: () => showPhoto(photo) },
    picture(photo, false),
    el("span", null, truth < 0 ? null : el("span", { class: `mark ${right ? "yes" : "no"}` }, right ? "✓ " : "✗ "),
      name_(page.fine[answers.predicted[photo]]), " ", el("span", { class: "number" }, percent(share))),
    right || truth < 0 ? null : el("span", null, "truth: ", name_(page.fine[truth])),
    el("span", { class: "file" }, name_(page.names[photo])));
}

function showPhoto(photo) {
  const truth = page.truth[photo];
  viewer.back.hidden = viewer.list === null;
  viewer.title.replaceChildren(truth < 0 ? "label not known" : name_(page.fine[truth]));
  viewer.body.replaceChildren(el("div", { class: "detail" },
    el("div", null, picture(photo, true), el("p", { class: "file" }, name_(page.names[photo]))),
    el("div", null, ...page.runs.map((run) => runDetail(run, photo)))));
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
  const sure = level < 0 ? "nothing is sure enough"
    : level === 0 ? page.fine[run.sure.label[photo]]
      : kind ? `${kind.name}: ${kind.labels[run.sure.label[photo]]}` : `the ${run.sources[level]}`;
  return el("section", null,
    el("h3", null, name_(run.name), " ",
      truth < 0 ? null : el("small", null, run.rank[photo] === 1 ? "right" : `the right label is number ${run.rank[photo]}`)),
    el("ol", null, ...rows),
    el("p", { class: "note" }, "sure answer: ", name_(sure),
      level < 0 ? "" : ` (${percent(run.sure.probability[photo])})`),
    kindList(run, photo), odds(run, photo));
}

function shareRow(label, share, right) {
  const bar = el("i");
  bar.style.width = `${100 * share}%`;
  return el("li", { class: right ? "is-right" : null },
    el("span", null, right ? el("span", { class: "mark yes" }, "✓ ") : null, name_(label)),
    el("span", { class: "number" }, percent(share)), el("span", { class: "rail-bar" }, bar));
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
    return el("div", null, el("dt", null, name_(kind.name)),
      el("dd", null, el("span", { class: `mark ${right === 1 ? "yes" : right === 0 ? "no" : "open"}` }, right === 1 ? "✓ " : right === 0 ? "✗ " : "· "),
        name_(kind.labels[answer.predicted[photo]]), " ", el("span", { class: "number" }, percent(answer.probability[photo])),
        right === 0 && truth >= 0 ? el("span", { class: "by" }, " truth: ", name_(kind.labels[truth])) : null));
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
    return [name_(label), el("span", { class: "track" }, ...half), el("span", { class: "number" }, `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`)];
  });
  const first = page.fine[run.top[photo * run.places]], second = page.fine[run.top[photo * run.places + 1]];
  return el("div", { class: "why-list" },
    el("h4", null, "Why ", name_(first), " rather than ", name_(second), `: log odds ${total < 0 ? "−" : "+"}${Math.abs(total).toFixed(2)}`),
    el("div", { class: "odds" }, ...cells));
}
