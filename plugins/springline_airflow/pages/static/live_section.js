// A part of a page that stays up to date by itself, and says its own troubles.

import { h, write } from "./elements.js";
import { poll } from "./shell.js";
import { morph } from "./morph.js";

export const RARELY = 5000; // milliseconds between two looks at what Kafka is asked for
const NOT_YET = new Set([404, 409]); // nothing is there before the job has run

/**
 * A section with a title; `show` makes what is in it of what `place` answers. `head` stands between, and stays.
 * `refresh` of what is returned asks at once.
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
