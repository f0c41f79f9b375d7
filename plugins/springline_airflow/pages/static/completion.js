// A text field that suggests completions in a list: by the keyboard as by the mouse, for readers of screens too.

import { h } from "./elements.js";

const PAUSE = 150; // milliseconds without a key before suggestions are asked for
let count = 0; // of fields, for their ids

/**
 * The field with its label and its list. `suggest` returns a promise of texts for what is typed; `choose` is called with
 * the one that is chosen, and `onError` with the text of an error.
 */
export function completion(title, attributes, suggest, choose, onError) {
  const id = `completion-${++count}`;
  const list = h("ul", { id: `${id}-list`, role: "listbox", "aria-label": `${title}: suggestions`, class: "completions", hidden: true });
  const input = h("input", {
    id, type: "search", autocomplete: "off", spellcheck: "false", role: "combobox", "aria-autocomplete": "list",
    "aria-expanded": "false", "aria-controls": list.id, ...attributes,
    oninput: () => later(), onkeydown: (event) => steer(event), onblur: () => close(),
  });
  let timer = 0;
  let turn = 0; // of the newest request
  let active = -1; // the suggestion that the keyboard is at

  function later() {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  }

  async function ask() {
    const mine = ++turn;
    if (!input.value.trim()) return close();
    try {
      const texts = await suggest(input.value.trim());
      if (mine === turn && document.activeElement === input) open(texts);
    } catch (error) {
      if (mine === turn) onError(error.message);
    }
    return undefined;
  }

  function open(texts) {
    list.replaceChildren(...texts.map((text, i) => h("li", {
      id: `${id}-${i}`, role: "option", "aria-selected": "false", title: text,
      onmousedown: (event) => { // before the field loses the focus
        event.preventDefault();
        take(text);
      },
    }, h("bdi", {}, text))));
    list.hidden = !texts.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    point(-1);
  }

  function close() {
    turn += 1; // the answer to a request under way is dropped
    clearTimeout(timer);
    open([]);
  }

  function point(next) {
    active = next;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === active)));
    list.children[active]?.scrollIntoView({ block: "nearest" });
    if (active < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `${id}-${active}`);
  }

  function take(text) {
    input.value = text;
    close();
    choose(text);
  }

  function steer(event) {
    const size = list.children.length;
    if (event.key === "ArrowDown" && !size) later();
    else if (event.key === "ArrowDown") point((active + 1) % size);
    else if (event.key === "ArrowUp" && size) point((Math.max(active, 0) - 1 + size) % size);
    else if (event.key === "Escape" && size) close();
    else if (event.key === "Enter" && active >= 0) take(list.children[active].title);
    else return;
    event.preventDefault();
  }

  return h("div", { class: "completion" }, h("label", { for: id }, title), input, list);
}
