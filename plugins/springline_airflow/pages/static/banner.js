// What a page says of a request that is repeated: what failed, since when, and what still holds.

import { h, write } from "./elements.js";
import { formatClock } from "./format.js";
import { openLogin } from "./airflow_window.js";

const UNAUTHORISED = 401;
const FORBIDDEN = 403;
const NOT_FOUND = 404;

/** Make `box` a banner; its `said` is the element of the message. Returns `show(text, outage)`. */
export function banner(box, said) {
  const holds = h("p", { class: "holds" });
  const button = h("button", { type: "button" });
  box.append(holds, button);

  /**
   * Show a message, as a failure if there is an `outage`: the `status` of the response, `failedAt` and `shownAt` (in
   * milliseconds; null if nothing is shown yet), and `retry`, which requests again at once.
   */
  return function show(text, outage = null) {
    write(said, text);
    said.classList.toggle("wrong", outage !== null);
    box.classList.toggle("failed", outage !== null);
    if (outage === null) return;
    write(holds, consequence(outage));
    write(button, outage.status === UNAUTHORISED ? "Log in" : "Retry now");
    button.hidden = !outage.retry;
    button.onclick = outage.status === UNAUTHORISED ? openLogin : outage.retry;
  };
}

/** What still holds while a request fails, in plain words. */
function consequence({ status = 0, failedAt = null, shownAt = null }) {
  const known = shownAt ? `What is shown was true at ${formatClock(shownAt / 1000)}.` : "";
  if (status === UNAUTHORISED) return `You are not logged in to Airflow any more. ${known}`.trim();
  if (status === FORBIDDEN) return `An administrator of Airflow can give you this permission. ${known}`.trim();
  if (status === NOT_FOUND) return known;
  const since = failedAt ? `No answer since ${formatClock(failedAt / 1000)}; it is requested again every few seconds.` : "";
  return [known, since].filter(Boolean).join(" ");
}
