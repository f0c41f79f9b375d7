// The button that moves a dataset to the head of the queue, in a row of a table.

import { TITLES, confirmAction } from "./actions.js";
import { nameOf } from "./dataset_links.js";
import { h } from "./elements.js";

/** The button for a generation; disabled with the reason if there is a `refusal`. `onDone` is called after the change. */
export function persistButton({ path, generation, refusal }, onDone) {
  const dataset = { path, generation };
  return h("button", {
    type: "button", disabled: Boolean(refusal), title: refusal && `Not permitted: ${refusal}`,
    "aria-label": `${TITLES.persist}: ${nameOf(dataset)}`,
    onclick: (event) => confirmAction(dataset, "persist", onDone, event.currentTarget),
  }, TITLES.persist);
}
