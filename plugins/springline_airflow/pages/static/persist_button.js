// The button that moves a dataset to the head of the queue: a dry run first, the change itself after a confirmation.

import { datasetUrl, post, query } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h } from "./elements.js";

const TITLE = "Persist now";

/** The name of a generation. */
export function nameOf({ path, generation }) {
  return `${path}@${generation}`;
}

/** A link to the page of a generation. */
export function datasetLink({ path, generation }) {
  return h("a", { class: "name", href: `dataset${query({ path, generation })}` }, nameOf({ path, generation }));
}

/** The button for a generation; disabled with the reason if there is a `refusal`. `onDone` is called after the change. */
export function persistButton({ path, generation, refusal }, onDone) {
  const place = `${datasetUrl(path)}/persist`;

  async function tried() {
    const { allowed, message } = await post(place, { generation, dry_run: true });
    return { allowed, message: allowed ? `${message}.` : `Not possible: ${message}.` };
  }

  async function perform() {
    await post(place, { generation });
    onDone();
  }

  return h("button", {
    type: "button", disabled: Boolean(refusal), title: refusal && `Not permitted: ${refusal}`,
    "aria-label": `${TITLE}: ${nameOf({ path, generation })}`,
    onclick: (event) => openConfirmation(TITLE, event.currentTarget, tried, perform),
  }, TITLE);
}
