// A dialog that says what would be done, and has it done when that is confirmed.

import { h, visible, write } from "./elements.js";

/**
 * Open one. `ask` tells `{words, allowed}` of what would be done; `grant` does it, and gives what is to be told then, or
 * nothing where the dialog may close. Where either fails, the dialog says why. Then `opener` has the focus again.
 */
export async function confirmed(title, opener, ask, grant) {
  const words = h("p", { "aria-live": "polite" }, "asking …");
  const yes = h("button", { type: "submit", disabled: true }, title);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog", onsubmit: submit }, h("h2", {}, title), words, h("p", { class: "buttons" }, yes, no));
  const dialog = h("dialog", { "aria-label": title, onclose: () => {
    dialog.remove();
    opener.focus();
  } }, form);

  async function submit(event) {
    event.preventDefault();
    yes.disabled = true;
    try {
      const told = await grant();
      if (!told) {
        dialog.close();
        return;
      }
      words.replaceChildren(...told.map(visible));
      yes.hidden = true;
      write(no, "Close");
      no.focus();
    } catch (error) {
      write(words, error.message);
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  try {
    const tried = await ask();
    write(words, tried.words);
    yes.disabled = !tried.allowed;
    (tried.allowed ? yes : no).focus();
  } catch (error) {
    write(words, error.message);
  }
}
