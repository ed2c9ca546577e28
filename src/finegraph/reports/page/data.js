// The data of the page, unpacked when it opens, and helpers. Names are always set as text, never as HTML.
const raw = JSON.parse(document.getElementById("data").textContent);
const ARRAY_TYPES = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, share: Uint16Array };

function unpack(column) {
  if (!column) return null;
  const text = atob(column.base64);
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  const numbers = new ARRAY_TYPES[column.form](bytes.buffer);
  return column.form === "share" ? Float32Array.from(numbers, (step) => step / 65535) : numbers;
}

function unpackRun(run) {
  return {
    ...run,
    predicted: unpack(run.predicted),
    logProb: unpack(run.logProb),
    rank: unpack(run.rank),
    top: unpack(run.top),
    topProbability: unpack(run.topProbability),
    kinds: run.kinds.map((kind) => kind && {
      predicted: unpack(kind.predicted), probability: unpack(kind.probability), right: unpack(kind.right),
    }),
    sure: {
      level: unpack(run.sure.level), label: unpack(run.sure.label), probability: unpack(run.sure.probability), ranges: run.sure.ranges,
    },
  };
}

const page = raw && {
  fine: raw.fine,
  leftOut: raw.leftOut,
  kinds: raw.kinds.map((kind) => ({
    ...kind, parents: unpack(kind.parents), truth: unpack(kind.truth), order: unpack(kind.order),
  })),
  orders: { coarse: unpack(raw.orders.coarse), confusion: unpack(raw.orders.confusion) },
  truth: unpack(raw.truth),
  train: unpack(raw.train),
  trainOf: raw.trainOf,
  names: raw.names,
  pictures: raw.pictures,
  training: raw.training,
  label: raw.label,
  runs: raw.runs.map(unpackRun),
  baseline: raw.baseline,
  other: raw.other,
};

// Create an element with attributes, listeners (`on...`) and children. The report is one file, so it has its own helper.
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const bidi = (text) => el("bdi", null, text);
const percentText = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const plural = (number, noun, nouns = `${noun}s`) => `${number.toLocaleString("en")} ${number === 1 ? noun : nouns}`;
const leftOut = (number, noun, nouns) => (number > 0 ? `${plural(number, `more ${noun}`, `more ${nouns}`)} ${number === 1 ? "is" : "are"} left out on paper; the page has them all.` : "");
const normalised = (text) => text.toLowerCase().normalize("NFKC");
