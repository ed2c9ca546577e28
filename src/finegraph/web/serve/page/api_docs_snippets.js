// The request of a form as code: curl for a shell, and Python with requests.

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const JSON_TYPE = "application/json";

/** A value as a Python literal. */
function literal(value, indent = "") {
  if (value === null) return "None";
  if (value === true || value === false) return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}    `;
  const list = Array.isArray(value);
  const parts = list ? value.map((one) => literal(one, deeper)) : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one, deeper)}`);
  const flat = parts.join(", ");
  const [open, close] = list ? "[]" : "{}";
  return flat.length < 72 ? `${open}${flat}${close}` : `${open}\n${parts.map((part) => `${deeper}${part},\n`).join("")}${indent}${close}`;
}

/** Pairs of names and values as a Python list; a name may occur several times. */
function pairs(all) {
  const parts = all.map(([name, value]) => `(${literal(name)}, ${literal(value)})`);
  return parts.length < 3 ? `[${parts.join(", ")}]` : `[\n${parts.map((part) => `        ${part},\n`).join("")}    ]`;
}

const isText = (type) => type === null || type === JSON_TYPE || type.startsWith("text/");

export function curl({ method, url, path, query, fields, files, json, type, token }) {
  const parts = ["curl"];
  if (token) parts.push(`-H "Authorization: Bearer $FINEGRAPH_TOKEN"`);
  for (const [name, file] of files ?? []) parts.push(`-F ${shell(`${name}=@${file}`)}`);
  for (const [name, value] of fields ?? []) parts.push(`--form-string ${shell(`${name}=${value}`)}`);
  if (json !== undefined) parts.push(`-H ${shell(`Content-Type: ${JSON_TYPE}`)}`, `-d ${shell(json)}`);
  if (method === "GET" && query.length) parts.push("-G", ...query.map(([name, value]) => `--data-urlencode ${shell(`${name}=${value}`)}`));
  if (!isText(type)) parts.push("-o photo.jpg");
  parts.push(shell(location.origin + (method === "GET" ? path : url)));
  return parts.join(parts.length > 3 ? " \\\n  " : " ");
}

export function python({ method, path, query, fields, files, json, type, token }) {
  const lines = [];
  if (query.length) lines.push(`params=${pairs(query)}`);
  if (files) lines.push(`files=[${files.map(([name, file]) => `(${literal(name)}, open(${literal(file)}, "rb"))`).join(", ")}]`);
  if (fields?.length) lines.push(`data=${pairs(fields)}`);
  if (json !== undefined) lines.push(`json=${bodyOf(json)}`);
  if (token) lines.push(`headers={"Authorization": f"Bearer {os.environ['FINEGRAPH_TOKEN']}"}`);
  const address = literal(location.origin + path);
  const call = lines.length ? `(\n    ${[address, ...lines].join(",\n    ")},\n)` : `(${address})`;
  const take = isText(type) ? `print(answer.${type === JSON_TYPE ? "json()" : "text"})` : `open("photo.jpg", "wb").write(answer.content)`;
  return `${token ? "import os\n\n" : ""}import requests\n\nanswer = requests.${method.toLowerCase()}${call}\nanswer.raise_for_status()\n${take}`;
}

/** The JSON body as a Python literal, or as a text if it is not valid JSON (yet). */
function bodyOf(json) {
  try {
    return literal(JSON.parse(json), "    ");
  } catch {
    return JSON.stringify(json);
  }
}
