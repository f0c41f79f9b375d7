// Moments as people say them, `3 min ago`; they stay true while the page is open.

import { h, write } from "./elements.js";
import { formatTime } from "./format.js";

const EVERY = 5000; // milliseconds between two looks at the clock
const STEPS = [[60, "s"], [3600, "min"], [48 * 3600, "h"], [60 * 86400, "days"]]; // up to so many seconds, in this unit
const UNITS = { s: 1, min: 60, h: 3600, days: 86400 };

/** `just now`, `40 s ago`, `3 min ago`, `5 h ago`, `12 days ago`; what is older, or yet to come, as a time. */
function formatAgo(timestamp, now = Date.now() / 1000) {
  const passed = now - timestamp;
  if (passed < -60) return formatTime(timestamp);
  if (passed < 5) return "just now";
  const step = STEPS.find(([most]) => passed < most);
  return step ? `${Math.floor(passed / UNITS[step[1]])} ${step[1]} ago` : formatTime(timestamp);
}

/** A moment (seconds since 1970) as an element; pointing at it shows the time in the reader's own zone. */
export function ago(timestamp) {
  return h("time", { datetime: new Date(timestamp * 1000).toISOString(), title: formatTime(timestamp), "data-at": timestamp },
    formatAgo(timestamp));
}

/** Keep all elements of `ago` below `place` true. */
export function keepTimes(place) {
  setInterval(() => {
    for (const element of place.querySelectorAll("time[data-at]")) write(element, formatAgo(Number(element.dataset.at)));
  }, EVERY);
}
