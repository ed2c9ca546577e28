// "Wrong label?": how to open a photo in `finegraph label`, and the source of its label.
function copyButton(text) {
  const button = el("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = await copyText(text, button) ? "Copied" : "Press Ctrl+C";
    window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

// A page opened from a file may not use the clipboard; then the text is selected and copied with `execCommand`.
async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    window.getSelection().removeAllRanges();
    window.getSelection().addRange(range);
    return document.execCommand("copy");
  }
}

function wrongLabel(photo, open) {
  const { command, address, folder, advice } = page.label;
  const truth = page.truth[photo];
  if (truth < 0) return null;
  const file = folder === null ? null : `${folder}${page.names[photo]}`;
  const place = `class=${encodeURIComponent(page.fine[truth])}&photo=${encodeURIComponent(file ?? page.names[photo])}`;
  return el("details", { class: "wrong", open }, el("summary", null, "Wrong label?"),
    command === null ? null : el("div", null,
      el("p", null, "To compare the photo with others of its class, and to correct its label, start"),
      el("div", { class: "command" }, el("code", null, command), copyButton(command)),
      el("p", null, el("a", { href: `${address}#${place}`, target: "_blank", rel: "noopener" }, "Open this photo in label ↗"),
        el("span", { class: "note" }, ` at ${address} on this machine, while that command runs.`))),
    el("p", null, advice),
    el("div", { class: "command" }, el("code", null, file ?? page.names[photo]), copyButton(file ?? page.names[photo])));
}
