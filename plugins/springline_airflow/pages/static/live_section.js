// A section of a page that updates itself, and shows its own errors.

import { h, write } from "./elements.js";
import { poll } from "./shell.js";
import { morph } from "./morph.js";

export const RARELY = 5000; // milliseconds between two requests that Kafka answers
const NOT_YET = new Set([404, 409]); // nothing is there before the job has run

/**
 * A section with a title; `show` returns its content from the response of `place`. `head` is between both, and stays.
 * `refresh` of the returned object updates at once.
 */
export function liveSection(title, place, show, { head = null, every = undefined } = {}) {
  const errorLine = h("p", { class: "trouble", role: "status" });
  const body = h("div");
  const part = h("section", { "aria-label": title }, h("h2", {}, title), head, errorLine, body);
  const refresh = poll(place, (answer) => morph(body, ...[show(answer)].flat(Infinity).filter(Boolean)), (text, wrong = false, status = 0) => {
    write(errorLine, text);
    errorLine.classList.toggle("wrong", wrong && !NOT_YET.has(status));
  }, every);
  return { part, refresh };
}
