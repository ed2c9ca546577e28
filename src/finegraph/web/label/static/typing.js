// Waiting until a person stops typing.

/** Call a function once a person stops typing. */
export function afterTyping(action, pause = 120) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), pause);
  };
}
