// The address of what is shown, after the `#`: a view and a place in it. The browser's Back goes to the view before.

/** Set the address; another place in the same view takes the place of the one before. */
export function setAddress(view, place) {
  const hash = place === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(place)}`;
  const before = location.hash.split("/")[1];
  if (before && before !== view) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
}
