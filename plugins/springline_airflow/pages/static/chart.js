// Data at risk over time, as two charts that end with the numbers of now, a sentence about the worst moment, and a table.

import { areaPath, gapBands, linePath } from "./curves.js";
import { h, s } from "./elements.js";
import { formatBytes, formatSeconds, formatTime, shortTime } from "./format.js";
import { patch, plot } from "./plot.js";

const MOST_ROWS = 20;
const MOST_DAGS = 3; // in a sentence
const HATCHED = "url(#gone)";
const STEP = { step: true };
const STALE = 300; // seconds without a sample before now from which on nothing is known of them

/**
 * The samples, oldest first, and the numbers of now as the last one. Each has `known_until`; where that is before the next
 * one's `timestamp`, nothing is known.
 */
export function momentsOf(samples, now) {
  if (!now) return samples;
  const before = samples.filter((each) => each.timestamp < now.timestamp);
  const last = before.at(-1);
  const continued = last && now.timestamp - last.known_until <= STALE ? [{ ...last, known_until: now.timestamp }] : last ? [last] : [];
  return [...before.slice(0, -1), ...continued, { ...now, known_until: now.timestamp }];
}

/** The moments between gaps. */
export function runsOf(moments) {
  const runs = [];
  moments.forEach((each, i) => {
    if (!i || moments[i - 1].known_until < each.timestamp) runs.push([]);
    runs.at(-1).push(each);
  });
  return runs;
}

/** How bad a loss would have been, for comparison: first what would be irrecoverable. */
const severity = (each) => [each.irrecoverable_bytes, each.unproven_bytes, each.recompute_seconds, each.bytes];

function isWorse(one, other) {
  const [a, b] = [severity(one), severity(other)];
  const first = a.findIndex((value, i) => value !== b[i]);
  return first >= 0 && a[first] > b[first];
}

/** The charts of the answer `{samples, worst, worst_dags}` of the history, and of the risk now. */
export function riskChart({ samples, worst: recorded, worst_dags: recordedDags }, now) {
  const moments = momentsOf(samples, now);
  if (!samples.length) return [h("p", { class: "empty" }, "Nothing was recorded in this period; the persister and the DAG maintenance take the samples.")];
  const isNow = now && now.bytes > 0 && (!recorded || isWorse(now, recorded));
  const [worst, dags] = isNow ? [now, now.dags] : [recorded, recordedDags];
  const description = describe(worst, dags, isNow);
  return [h("figure", {}, h("div", { class: "plots" },
    h("div", {}, h("p", { class: "faint" }, "Bytes only in the cache"), bytesPlot(moments, worst, description, now)),
    h("div", {}, h("p", { class: "faint" }, "Time to recompute them"), secondsPlot(moments, worst, now))),
  h("figcaption", {}, legend(moments), h("p", { class: "worst" }, description), now && h("p", { class: "now" }, nowText(now)))),
  h("details", {}, h("summary", {}, "As a table"), momentsTable(moments))];
}

/** The numbers at the end of the curve, which are those above it. */
function nowText({ irrecoverable_bytes: gone, bytes, recompute_seconds: seconds }) {
  return `Now: ${formatBytes(gone)} irrecoverable, ${formatBytes(bytes - gone)} to be recomputed, in about ${formatSeconds(seconds)}.`;
}

function describe(worst, dags, isNow) {
  if (!worst) return "Nothing was at risk in this period.";
  const { irrecoverable_bytes: gone, unproven_bytes: unproven, bytes, recompute_seconds: seconds } = worst;
  const when = isNow ? "now" : `at ${formatTime(worst.timestamp)}`;
  const doubtful = unproven ? ` (${formatBytes(unproven)} of it only if operations are idempotent as declared)` : "";
  const named = dags.slice(0, MOST_DAGS).map((dag) => `${dag.dag_id || "without a DAG"} ${formatBytes(dag.bytes)}`);
  const more = dags.length > MOST_DAGS ? ` and ${dags.length - MOST_DAGS} more` : "";
  return `Worst moment: ${when}. ${formatBytes(gone)} would have been irrecoverable, ${formatBytes(bytes - gone)} to be recomputed${doubtful}, `
    + `in about ${formatSeconds(seconds)}. By DAG: ${named.join(", ")}${more}.`;
}

const readoutOf = (moments) => {
  const known = new Map(moments.map((each) => [each.timestamp, each]));
  return (at) => {
    const each = known.get(at);
    return each ? `${formatTime(at)}: ${formatBytes(each.irrecoverable_bytes)} irrecoverable, ${formatBytes(each.bytes - each.irrecoverable_bytes)} to be recomputed, in about ${formatSeconds(each.recompute_seconds)}` : "";
  };
};

function options(moments, worst, value, more) {
  return {
    first: moments[0].timestamp, last: moments.at(-1).timestamp, most: Math.max(...moments.map(value)), formatPlace: shortTime,
    places: moments.map((each) => each.timestamp), readout: readoutOf(moments),
    mark: worst && { at: worst.timestamp, value: value(worst) }, ...more,
  };
}

/** The points `[at, value]` of each run: a value holds until the next sample, and changes at once; the last one ends with the run. */
function segments(moments, value) {
  return runsOf(moments).map((run) => [...run.map((each) => [each.timestamp, value(each)]), [run.at(-1).known_until, value(run.at(-1))]]);
}

/** The end of a curve, with its value, unless that is the marked one. */
function endMark(now, worst, value, format, x, y, { top }) {
  if (!now || worst === now) return null;
  const [left, above] = [x(now.timestamp), y(value(now))];
  return [s("circle", { class: "end-mark", cx: left, cy: above, r: 4 }),
    s("text", { class: "mark end", x: left - 8, y: above < top + 12 ? above + 16 : above - 8 }, `now: ${format(value(now))}`)];
}

function bytesPlot(moments, worst, description, now) {
  const [total, gone] = [(each) => each.bytes, (each) => each.irrecoverable_bytes];
  const doubtful = (each) => each.irrecoverable_bytes + each.unproven_bytes;
  const drawn = options(moments, worst, total, { formatValue: formatBytes, description });
  if (drawn.mark) drawn.mark.label = `worst${worst === now ? ", now" : ""}: ${formatBytes(worst.bytes)}`;
  return plot(drawn, (x, y, ground) => [
    s("defs", {}, s("pattern", { id: "gone", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      s("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatch" }))),
    gapBands(segments(moments, total), x, ground),
    s("path", { d: areaPath(segments(moments, total), x, y, 0, STEP), class: "some" }),
    moments.some((each) => each.unproven_bytes) && s("path", { d: areaPath(segments(moments, doubtful), x, y, 0, STEP), class: "unproven" }),
    moments.some(gone) && s("path", { d: areaPath(segments(moments, gone), x, y, 0, STEP), class: "gone", fill: HATCHED }),
    s("path", { d: linePath(segments(moments, total), x, y, STEP), class: "someline" }),
    endMark(now, worst, total, formatBytes, x, y, ground),
  ]);
}

function secondsPlot(moments, worst, now) {
  const value = (each) => each.recompute_seconds;
  const drawn = options(moments, worst, value, { formatValue: formatSeconds, description: "Time to recompute what would be lost" });
  if (drawn.mark) drawn.mark.label = formatSeconds(value(worst));
  return plot(drawn, (x, y, ground) => [gapBands(segments(moments, value), x, ground),
    s("path", { d: linePath(segments(moments, value), x, y, STEP), class: "secondsline" }),
    endMark(now, worst, value, formatSeconds, x, y, ground)]);
}

function legend(moments) {
  const entries = [
    moments.some((each) => each.irrecoverable_bytes) && [patch("gone", HATCHED), " irrecoverable"],
    moments.some((each) => each.unproven_bytes) && [patch("unproven"), " recomputed only if idempotent as declared"],
    [patch("some"), " to be recomputed"],
    runsOf(moments).length > 1 && [patch("gap"), " no samples"],
  ];
  return h("p", { class: "legend keys" }, entries.filter(Boolean).map((entry) => h("span", {}, entry)));
}

/** The moments as table rows; of many, every n-th and the last. */
function momentsTable(moments) {
  const step = Math.ceil(moments.length / MOST_ROWS);
  const shown = moments.filter((_, i) => i % step === 0 || i === moments.length - 1);
  const head = ["time", "only in the cache", "irrecoverable", "unproven", "time to recompute"];
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "At risk over time" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map((title, i) => h("th", { scope: "col", class: i && "number" }, title)))),
    h("tbody", {}, shown.map((each) => h("tr", {}, h("td", { class: "narrow" }, formatTime(each.timestamp)),
      h("td", { class: "number" }, formatBytes(each.bytes)), h("td", { class: "number" }, formatBytes(each.irrecoverable_bytes)),
      h("td", { class: "number" }, formatBytes(each.unproven_bytes)), h("td", { class: "number" }, formatSeconds(each.recompute_seconds)))))));
}
