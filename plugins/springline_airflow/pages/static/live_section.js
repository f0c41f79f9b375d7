// A section of a page that updates itself, and shows its own errors.

import { banner } from "./banner.js";
import { h } from "./elements.js";
import { isSaidByPage, poll } from "./shell.js";
import { morph } from "./morph.js";

export const RARELY = 5000; // milliseconds between two requests that Kafka answers
const NOT_YET = new Set([404, 409]); // nothing is there before the job has run

/**
 * A section with a title; `show` returns its content from the response of `place`. `head` is between both, and stays.
 * `refresh` of the returned object updates at once.
 */
export function liveSection(title, place, show, { head = null, every = undefined } = {}) {
  const said = h("p", { class: "trouble said", role: "status" });
  const box = h("div", { class: "banner" }, said);
  const showBanner = banner(box, said);
  const body = h("div", { "aria-busy": "true" });
  const part = h("section", { "aria-label": title }, h("h2", {}, title), head, box, body);
  const refresh = poll(place, (answer) => morph(body, ...[show(answer)].flat(Infinity).filter(Boolean)), (text, wrong = false, status = 0, outage = {}) => {
    body.removeAttribute("aria-busy");
    if (isSaidByPage(status) && wrong) showBanner("");
    else showBanner(text, wrong && !NOT_YET.has(status) ? { status, ...outage } : null);
  }, every);
  return { part, refresh };
}
