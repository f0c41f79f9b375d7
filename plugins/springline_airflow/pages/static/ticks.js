// Round places on an axis: pure functions.

import { moment } from "./format.js";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR,
  3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY]; // seconds

/** Round numbers from at most `least` to at least `most`, about `count` of them: steps of 1, 2 or 5 times a power of ten. */
export function niceTicks(least, most, count = 4) {
  if (!(most > least)) return [least];
  const rough = (most - least) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough * 0.999) * power;
  const first = Math.floor(least / step + 1e-9);
  const last = Math.ceil(most / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Round moments between two (seconds since 1970), at most `count`; hours and days are those of the reader's zone. */
export function timeTicks(first, last, count = 6) {
  const step = STEPS.find((each) => (last - first) / each <= count) ?? STEPS.at(-1);
  const shift = step > MINUTE ? zoneShift(first) : 0;
  const from = Math.ceil((first + shift) / step) * step - shift;
  const ticks = [];
  for (let at = from; at <= last; at += step) ticks.push(at);
  return ticks;
}

/** The text of a moment at an axis on which neighbours are `step` seconds apart. */
export function tickText(at, step) {
  const isMidnight = (at + zoneShift(at)) % DAY === 0;
  if (step >= DAY || isMidnight) return moment(at, { month: "short", day: "numeric" });
  const seconds = step < MINUTE ? { second: "2-digit" } : {};
  return moment(at, { hour: "2-digit", minute: "2-digit", ...seconds, hourCycle: "h23" });
}

/** Seconds by which the reader's clock is ahead of UTC. */
function zoneShift(at) {
  const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const local = Date.parse(`${moment(at, parts, "sv").replace(" ", "T")}Z`) / 1000;
  return Math.round((local - Math.floor(at)) / 60) * 60;
}
