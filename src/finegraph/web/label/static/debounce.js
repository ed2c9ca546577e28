// Waiting until a person pauses.

/** A function that calls `action` once, `pause` milliseconds after its last call. */
export function debounce(action, pause = 120) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), pause);
  };
}
