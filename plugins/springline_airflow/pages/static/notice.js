// What the reader has to know before all else, in a box of its own.

import { h } from "./elements.js";

/** A text with a full stop, unless it has one. */
export function ended(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** The box; nothing without a text. */
export function notice(text) {
  return text && h("p", { class: "notice", role: "status" }, ended(text));
}
