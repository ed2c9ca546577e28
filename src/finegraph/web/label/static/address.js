// The address of the open view, after the `#`: `#class=NAME`, `#class=NAME&photo=FILE`, `#grid=KIND`, `#compare=KIND`,
// `#team`. The browser's Back returns to the former view. Reports link to photos in this form; see docs/label.md.

/** Parse an address: a view, a class or kind in it, and a photo. Addresses of earlier versions were `#/class/NAME`. */
export function readAddress(hash = location.hash) {
  const [, view, place] = hash.startsWith("#/") ? hash.split("/") : [];
  const fields = new URLSearchParams(view === undefined ? hash.slice(1) : `${view}=${place ?? ""}`);
  const name = ["class", "grid", "compare", "team"].find((one) => fields.has(one)) ?? "class";
  return { view: name, place: fields.get(name) || undefined, photo: fields.get("photo") || undefined };
}

/** Set the address. Only another view adds an entry to the history of the browser. */
export function setAddress(view, place, photo) {
  const named = (name, value) => `${name}=${encodeURIComponent(value)}`;
  const fields = [place === undefined ? view : named(view, place), photo !== undefined && named("photo", photo)];
  const hash = `#${fields.filter(Boolean).join("&")}`;
  if (location.hash && readAddress().view !== view) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}
