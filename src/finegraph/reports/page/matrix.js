// The confusion matrix: a canvas whose cells, or blocks of cells if there are many labels, open their photos.
const matrix = { canvas: document.getElementById("matrix"), cell: document.getElementById("matrix-cell"), at: null };
const SIDE = 640;

function levelData() {
  const level = Number(document.getElementById("matrix-level").value);
  const run = Number(document.getElementById("matrix-run").value);
  const order = document.getElementById("matrix-order").value;
  const kind = level === 0 ? null : page.kinds[level - 1];
  const labels = kind ? kind.labels : page.fine;
  const own = page.runs[run];
  const answers = kind && own.kinds[level - 1];
  const predicted = kind ? answers && answers.predicted : own.predicted;
  // If a fine label has several coarse labels, each of them is a right answer.
  const truth = !kind ? page.truth : !answers ? kind.truth
    : Int32Array.from(kind.truth, (label, photo) => (answers.right[photo] === 1 ? answers.predicted[photo] : label));
  let sorted = kind ? kind.order : page.orders[order === "name" ? "coarse" : order];
  if (order === "name") sorted = Int32Array.from(labels.keys()).sort((one, two) => labels[one].localeCompare(labels[two]));
  return { level, labels, truth, predicted: predicted || new Int32Array(truth.length).fill(-1), sorted, run };
}

function build() {
  const data = levelData();
  const size = data.labels.length;
  const rank = new Int32Array(size);
  data.sorted.forEach((label, place) => { rank[label] = place; });
  const bins = Math.min(size, SIDE);
  const binOf = (label) => Math.floor(rank[label] * bins / size);
  const cells = new Map(), totals = new Int32Array(bins), pairs = new Map();
  data.truth.forEach((truth, photo) => {
    const answer = data.predicted[photo];
    if (truth < 0 || answer < 0) return;
    const key = binOf(truth) * bins + binOf(answer);
    totals[binOf(truth)] += 1;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(photo);
    if (truth !== answer) {
      const pair = truth * size + answer;
      if (!pairs.has(pair)) pairs.set(pair, []);
      pairs.get(pair).push(photo);
    }
  });
  Object.assign(matrix, { data, size, bins, cells, totals, at: null });
  matrix.pairs = [...pairs].map(([pair, photos]) => ({
    level: data.level, truth: Math.floor(pair / size), answer: pair % size, photos,
  })).sort((one, two) => two.photos.length - one.photos.length || data.labels[one.truth].localeCompare(data.labels[two.truth]));
  draw();
  listPairs();
}

function draw() {
  const { canvas, bins } = matrix;
  const sharp = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = canvas.height = SIDE * sharp;
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  const style = getComputedStyle(document.documentElement);
  const hit = style.getPropertyValue("--cell").trim(), miss = style.getPropertyValue("--miss").trim();
  const step = SIDE / bins, gap = step > 12 ? 1 : 0;
  for (const [key, photos] of matrix.cells) {
    const row = Math.floor(key / bins), column = key % bins;
    const share = Math.sqrt(photos.length / Math.max(1, matrix.totals[row]));
    context.fillStyle = `rgba(${row === column ? hit : miss},${0.14 + 0.86 * share})`;
    context.fillRect(column * step, row * step, Math.max(1, step - gap), Math.max(1, step - gap));
  }
  outline(context, step, style.getPropertyValue("--quiet"));
  if (matrix.at) {
    context.strokeStyle = style.getPropertyValue("--ink");
    context.lineWidth = 2;
    const wide = Math.max(step, 6);
    context.strokeRect(matrix.at[1] * step + step / 2 - wide / 2, matrix.at[0] * step + step / 2 - wide / 2, wide, wide);
  }
}

// Draw squares around the fine labels of a coarse label, if the order keeps them together.
function outline(context, step, colour) {
  if (matrix.data.level || matrix.bins < matrix.size) return;
  context.strokeStyle = colour;
  context.lineWidth = 0.8;
  for (const kind of page.kinds) {
    const starts = [];
    matrix.data.sorted.forEach((label, place) => {
      if (place === 0 || kind.parents[label] !== kind.parents[matrix.data.sorted[place - 1]]) starts.push(place);
    });
    if (starts.length < 2 || starts.length > new Set(kind.parents).size) continue;
    starts.forEach((start, number) => {
      const wide = ((starts[number + 1] ?? matrix.size) - start) * step;
      context.strokeRect(start * step, start * step, wide, wide);
    });
  }
}

function labelOf(bin) {
  const { size, bins, data } = matrix;
  const start = Math.ceil(bin * size / bins), end = Math.max(start + 1, Math.ceil((bin + 1) * size / bins));
  const first = data.labels[data.sorted[start]];
  return end - start > 1 ? [bidi(first), ` and ${end - start - 1} more`] : [bidi(first)];
}

function photosAt(row, column) {
  return matrix.cells.get(row * matrix.bins + column) || [];
}

function moveTo(row, column) {
  const last = matrix.bins - 1;
  matrix.at = [Math.max(0, Math.min(last, row)), Math.max(0, Math.min(last, column))];
  const photos = photosAt(...matrix.at);
  matrix.cell.replaceChildren(el("strong", null, plural(photos.length, "photo")), el("br"), "true: ", ...labelOf(matrix.at[0]),
    el("br"), "answered: ", ...labelOf(matrix.at[1]));
  draw();
}

function openCell() {
  if (!matrix.at) return;
  const photos = photosAt(...matrix.at);
  if (!photos.length) return;
  const [row, column] = matrix.at, { sorted, level, run } = matrix.data;
  if (matrix.bins < matrix.size || row === column) showPhotos(["true: ", ...labelOf(row), ", answered: ", ...labelOf(column)], photos, run);
  else showPair({ level, truth: sorted[row], answer: sorted[column], photos }, run);
}

function spot(event) {
  const box = matrix.canvas.getBoundingClientRect();
  return [Math.floor((event.clientY - box.top) / box.height * matrix.bins), Math.floor((event.clientX - box.left) / box.width * matrix.bins)];
}

function nextMistake() {
  const keys = [...matrix.cells.keys()].filter((key) => Math.floor(key / matrix.bins) !== key % matrix.bins).sort((a, b) => a - b);
  const now = matrix.at ? matrix.at[0] * matrix.bins + matrix.at[1] : -1;
  const next = keys.find((key) => key > now) ?? keys[0];
  if (next !== undefined) moveTo(Math.floor(next / matrix.bins), next % matrix.bins);
}

function matrixKeys(event) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const [row, column] = matrix.at || [0, 0];
  if (moves[event.key]) moveTo(row + moves[event.key][0], column + moves[event.key][1]);
  else if (event.key === "Enter" || event.key === " ") openCell();
  else if (event.key === "n" || event.key === "N") nextMistake();
  else return;
  event.preventDefault();
}

const MAX_PAIRS_ON_PAPER = 15; // the style sheet hides the others in print
let pairsShown = 40;
function listPairs() {
  const wanted = normalised(document.getElementById("pairs-search").value);
  const { labels, run } = matrix.data;
  const found = matrix.pairs.filter((pair) => !wanted || [pair.truth, pair.answer].some((label) => normalised(labels[label]).includes(wanted)));
  const items = found.slice(0, pairsShown).map((pair) => el("li", null, el("button", {
    type: "button", onclick: () => showPair(pair, run),
  }, el("span", null, bidi(labels[pair.truth]), " → ", bidi(labels[pair.answer])), el("span", { class: "number" }, String(pair.photos.length)))));
  document.getElementById("pairs").replaceChildren(...items.length ? items : [el("li", { class: "note" }, "none")]);
  document.getElementById("pairs-more").hidden = found.length <= pairsShown;
  document.getElementById("pairs-paper").textContent = leftOut(found.length - MAX_PAIRS_ON_PAPER, "confusion", "confusions");
}

function fillOrders() {
  const fine = document.getElementById("matrix-level").value === "0";
  const orders = fine ? [["coarse", "by coarse label"], ["confusion", "by confusion"], ["name", "by name"]] : [["confusion", "by confusion"], ["name", "by name"]];
  document.getElementById("matrix-order").replaceChildren(...orders.map(([value, text]) => el("option", { value }, text)));
}

function startMatrix() {
  const level = document.getElementById("matrix-level"), run = document.getElementById("matrix-run");
  level.append(el("option", { value: 0 }, "fine labels"), ...page.kinds.map((kind, place) => el("option", { value: place + 1 }, kind.name)));
  run.append(...page.runs.map((one, place) => el("option", { value: place, selected: place === page.other }, one.name)));
  fillOrders();
  level.addEventListener("change", () => { fillOrders(); build(); });
  run.addEventListener("change", build);
  document.getElementById("matrix-order").addEventListener("change", build);
  matrix.canvas.addEventListener("pointermove", (event) => moveTo(...spot(event)));
  matrix.canvas.addEventListener("click", (event) => { moveTo(...spot(event)); openCell(); });
  matrix.canvas.addEventListener("keydown", matrixKeys);
  document.getElementById("pairs-search").addEventListener("input", () => { pairsShown = 40; listPairs(); });
  document.getElementById("pairs-more").addEventListener("click", () => { pairsShown += 200; listPairs(); });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", draw);
  build();
}
