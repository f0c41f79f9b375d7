// A dialog that says what would be done, and has it done when that is confirmed.

import { h, visible, write } from "./elements.js";

/**
 * Open one. `ask` returns `{message, allowed}` of what would be done; `perform` does it, and returns what is to be shown
 * then, or nothing where the dialog may close. Where either fails, the dialog says why. Then `opener` has the focus again.
 */
export async function openConfirmation(title, opener, ask, perform) {
  const message = h("p", { "aria-live": "polite" }, "asking …");
  const yes = h("button", { type: "submit", disabled: true }, title);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog", onsubmit: submit }, h("h2", {}, title), message, h("p", { class: "buttons" }, yes, no));
  const dialog = h("dialog", { "aria-label": title, onclose: () => {
    dialog.remove();
    opener.focus();
  } }, form);

  async function submit(event) {
    event.preventDefault();
    yes.disabled = true;
    try {
      const outcome = await perform();
      if (!outcome) {
        dialog.close();
        return;
      }
      message.replaceChildren(...outcome.map(visible));
      yes.hidden = true;
      write(no, "Close");
      no.focus();
    } catch (error) {
      write(message, error.message);
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  try {
    const preview = await ask();
    write(message, preview.message);
    yes.disabled = !preview.allowed;
    (preview.allowed ? yes : no).focus();
  } catch (error) {
    write(message, error.message);
  }
}
