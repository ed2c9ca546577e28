// A field with suggestions (an ARIA combobox) for any number of labels: the server searches, and probable labels come
// first. Arrow keys move, Enter picks, Escape closes.

import { el } from "/shared/elements.js";
import { percent } from "./probabilities.js";
import { explain, findLabels } from "./serve_api.js";

const MAX_LETTERS = 200; // the limit of the server
let count = 0;

/**
 * @param kind the name of the kind
 * @param suggested () => [{label, probability}], the labels to offer before anything is typed
 * @param onPick (label) => void
 */
export function makePicker(kind, title, suggested, onPick) {
  count += 1;
  const listId = `suggestions-${count}`;
  const list = el("ul", { id: listId, role: "listbox", hidden: true, "aria-label": title });
  const input = el("input", {
    type: "text",
    autocomplete: "off",
    spellcheck: false,
    placeholder: "Another one…",
    role: "combobox",
    "aria-label": title,
    "aria-expanded": "false",
    "aria-controls": listId,
    "aria-autocomplete": "list",
  });
  let options = [];
  let active = -1;
  let pendingRequest = null;

  function close() {
    pendingRequest?.abort();
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function mark(number) {
    active = options.length ? (number + options.length) % options.length : -1;
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === active)));
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", list.children[active].id);
      list.children[active].scrollIntoView({ block: "nearest" });
    }
  }

  function pick(label) {
    input.value = "";
    close();
    onPick(label);
  }

  function show(found, total) {
    options = found;
    const items = found.map(({ label, probability }, index) =>
      el(
        "li",
        {
          id: `${listId}-${index}`,
          role: "option",
          "aria-selected": "false",
          onmousedown: (event) => event.preventDefault(), // the field keeps the focus
          onclick: () => pick(label),
        },
        el("span", { textContent: label }),
        el("span", { textContent: probability === undefined ? "" : percent(probability) }),
      ),
    );
    if (!found.length) items.push(remark("There is no such label."));
    else if (total > found.length) items.push(remark(`and ${(total - found.length).toLocaleString()} more; type to find them`));
    unfold(items);
  }

  function remark(words) {
    return el("li", { className: "none", textContent: words });
  }

  function unfold(items) {
    list.replaceChildren(...items);
    list.hidden = false;
    active = -1;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
  }

  async function refresh() {
    pendingRequest?.abort();
    pendingRequest = new AbortController();
    const text = input.value.trim().slice(0, MAX_LETTERS);
    try {
      const { labels, count: total } = await findLabels(kind, text, pendingRequest.signal);
      const probable = new Map(suggested().map(({ label, probability }) => [label, probability]));
      const first = text ? [] : [...probable.keys()];
      const ordered = [...first, ...labels.filter((label) => !first.includes(label))];
      show(ordered.map((label) => ({ label, probability: probable.get(label) })), total);
    } catch (error) {
      if (error.name === "AbortError") return;
      options = [];
      unfold([remark(explain(error))]);
    }
  }

  input.addEventListener("focus", refresh);
  input.addEventListener("input", refresh);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    // Ignore keys of an input method, whose Enter accepts a word. Safari marks that key with code 229 only.
    if (event.isComposing || event.keyCode === 229) return undefined;
    if (event.key === "Escape") return close();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return refresh();
      return mark(event.key === "ArrowDown" ? active + 1 : active < 0 ? -1 : active - 1);
    }
    if (event.key === "Enter" && !list.hidden) {
      event.preventDefault();
      const chosen = options[active] ?? (options.length === 1 ? options[0] : null);
      if (chosen) pick(chosen.label);
    }
    return undefined;
  });
  return el("div", { className: "picker" }, input, list);
}
