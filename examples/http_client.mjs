// Ask a server of `finegraph serve` from JavaScript; the same code runs in a page.
//
//     node examples/http_client.mjs http://127.0.0.1:8000 photo.jpg [KIND=LABEL ...]
import { readFile } from "node:fs/promises";

const [address, photo, ...known] = process.argv.slice(2);
const form = new FormData();
form.append("photo", new Blob([await readFile(photo)]), "photo");
for (const text of known) form.append("given", text);
const response = await fetch(`${address}/v1/predict`, { method: "POST", body: form });
const answer = await response.json();
if (!response.ok) throw new Error(`${answer.title}: ${answer.detail}`);
const first = answer.photos[0];
console.log(first.words);
for (const { label, probability } of first.top) console.log(`${(100 * probability).toFixed(2).padStart(6)}%  ${label}`);
