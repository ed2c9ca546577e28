// The table of classes: sortable by any column, searchable by fine or coarse label, drawn some rows at a time.
const classes = { rows: [], shown: 100, sort: { column: 0, up: true } };
const MAX_ROWS_ON_PAPER = 1000;

function classRows() {
  const size = page.fine.length;
  const count = new Int32Array(size);
  const photos = Array.from({ length: size }, () => null);
  page.truth.forEach((truth, photo) => {
    if (truth < 0) return;
    count[truth] += 1;
    if (photos[truth]) photos[truth].push(photo); else photos[truth] = [photo];
  });
  return page.fine.map((label, fine) => {
    const own = photos[fine] || [];
    const right = page.runs.map((run) => own.filter((photo) => run.predicted[photo] === fine).length / own.length);
    const wrong = new Map();
    for (const photo of own) {
      const answer = page.runs[page.other].predicted[photo];
      if (answer !== fine) wrong.set(answer, (wrong.get(answer) || 0) + 1);
    }
    const worst = [...wrong].sort((one, two) => two[1] - one[1] || one[0] - two[0])[0];
    const parents = shownKinds().map((kind) => (kind.parents[fine] < 0 ? "" : kind.labels[kind.parents[fine]]));
    const difference = page.runs.length > 1 ? right[page.other] - right[page.baseline] : null;
    return {
      label, parents, photos: own, train: page.train ? page.train[fine] : null, right, difference,
      confusedWith: worst ? `${page.fine[worst[0]]}` : "", confusedCount: worst ? worst[1] : 0,
      text: normalised([label, ...parents].join("\n")),
    };
  });
}

function shownKinds() {
  return page.kinds.filter((kind) => !(kind.labels.length === 2 && kind.labels[0] === "no" && kind.labels[1] === "yes")).slice(0, 3);
}

function columns() {
  const share = (value) => (Number.isNaN(value) ? "–" : percentText(value, 0));
  const listed = [
    { title: "fine label", key: (row) => row.label, cell: (row) => row.photos.length
      ? el("button", { type: "button", onclick: () => showPhotos(["true: ", bidi(row.label)], row.photos, page.other) }, bidi(row.label))
      : bidi(row.label), head: true },
    ...shownKinds().map((kind, place) => ({ title: kind.name, key: (row) => row.parents[place], cell: (row) => bidi(row.parents[place]) })),
  ];
  if (page.train) listed.push({ title: page.trainOf ? `training photos, ${page.trainOf}` : "training photos", key: (row) => row.train, cell: (row) => row.train.toLocaleString("en"), number: true });
  listed.push({ title: "evaluated photos", key: (row) => row.photos.length, cell: (row) => row.photos.length.toLocaleString("en"), number: true });
  page.runs.forEach((run, place) => listed.push({
    title: page.runs.length > 1 ? `${run.name}: right` : "right", key: (row) => row.right[place], cell: (row) => share(row.right[place]), number: true,
  }));
  if (page.runs.length > 1) listed.push({ title: page.runs.length > 2 ? `difference, ${page.runs[page.other].name}` : "difference", key: (row) => row.difference, number: true,
    cell: (row) => (Number.isNaN(row.difference) ? "–" : `${row.difference < 0 ? "−" : "+"}${Math.abs(100 * row.difference).toFixed(0)}`) });
  listed.push({ title: page.runs.length > 1 ? `${page.runs[page.other].name}: most often taken for` : "most often taken for", key: (row) => row.confusedCount,
    cell: (row) => (row.confusedWith ? el("span", null, bidi(row.confusedWith), el("span", { class: "number" }, ` ×${row.confusedCount}`)) : "") });
  return listed;
}

function compareKeys(one, two) {
  const missing = (value) => value === null || value === "" || Number.isNaN(value);
  if (missing(one) || missing(two)) return missing(one) - missing(two);
  return typeof one === "string" ? one.localeCompare(two) : one - two;
}

function drawClasses() {
  const wanted = normalised(document.getElementById("classes-search").value.trim());
  const all = columns();
  const { column, up } = classes.sort;
  const found = classes.rows.filter((row) => !wanted || row.text.includes(wanted));
  const key = all[column].key;
  found.sort((one, two) => {
    const order = compareKeys(key(one), key(two));
    const missing = [key(one), key(two)].some((value) => value === null || value === "" || Number.isNaN(value));
    return up || missing ? order : -order;
  });
  const table = document.getElementById("classes-table");
  table.tBodies[0].replaceChildren(...found.slice(0, classes.shown).map((row) => el("tr", null, ...all.map((one) => (
    el(one.head ? "th" : "td", one.head ? { scope: "row" } : { class: one.number ? "num" : null }, one.cell(row)))))));
  [...table.tHead.rows[0].cells].forEach((cell, place) => (
    cell.setAttribute("aria-sort", place === column ? (up ? "ascending" : "descending") : "none")));
  document.getElementById("classes-count").textContent = plural(found.length, "class", "classes")
    + (page.leftOut ? `; ${page.leftOut.toLocaleString("en")} without photos left out` : "");
  document.getElementById("classes-more").hidden = found.length <= classes.shown;
  document.getElementById("classes-paper").textContent = leftOut(found.length - classes.shown, "class", "classes");
}

function startClasses() {
  classes.rows = classRows();
  const heads = columns().map((one, place) => el("th", { scope: "col", class: one.number ? "num" : null }, el("button", {
    type: "button",
    onclick: () => {
      const same = classes.sort.column === place;
      classes.sort = { column: place, up: same ? !classes.sort.up : !one.number };
      drawClasses();
    },
  }, bidi(one.title))));
  document.getElementById("classes-table").tHead.replaceChildren(el("tr", null, ...heads));
  document.getElementById("classes-search").addEventListener("input", () => { classes.shown = 100; drawClasses(); });
  document.getElementById("classes-more").addEventListener("click", () => { classes.shown += 500; drawClasses(); });
  drawClasses();
}
