// A dialog that shows the dry run of an action, and performs it after a confirmation.

import { h, visible, write } from "./elements.js";

/**
 * Open a dialog. `ask` returns `{message, allowed}` of the dry run; `perform` acts, and returns the text to be shown
 * then, or nothing if the dialog closes. If either fails, the dialog shows the error. `opener` gets the focus back.
 */
export async function openConfirmation(title, opener, ask, perform) {
  const message = h("p", { "aria-live": "polite" }, "loading …");
  const yes = h("button", { type: "submit", disabled: true }, title);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", { method: "dialog", onsubmit: submit }, h("h2", {}, title), message, h("p", { class: "buttons" }, no, yes));
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
      fail(error);
    }
  }

  function fail(error) {
    write(message, error.message);
    message.classList.add("wrong");
  }

  document.body.append(dialog);
  dialog.showModal();
  try {
    const preview = await ask();
    write(message, preview.message);
    yes.disabled = !preview.allowed;
    (preview.allowed ? yes : no).focus();
  } catch (error) {
    fail(error);
  }
}
