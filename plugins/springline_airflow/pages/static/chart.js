// Data at risk over time, as a chart, a sentence and a table.

import { h, s } from "./elements.js";
import { patch, plot } from "./plot.js";
import { formatBytes, formatSeconds, formatTime } from "./format.js";

const MOST_ROWS = 20;
const HATCHED = "url(#gone)";

/** The chart of moments `{timestamp, bytes, unproven_bytes, irrecoverable_bytes, recompute_seconds}`, the oldest first. */
export function chart(moments) {
  if (!moments.length) return h("p", { class: "empty" }, "Nothing was recorded in this period.");
  const worst = moments.reduce((most, each) => (each.bytes > most.bytes ? each : most));
  const description = describe(moments, worst);
  return h("figure", {}, picture(moments, worst, description), h("figcaption", {}, legend(), h("p", {}, description)),
    h("details", {}, h("summary", {}, "As a table"), rows(moments)));
}

function describe(moments, worst) {
  const last = moments.at(-1);
  if (!worst.bytes) return "Nothing was at risk in this period.";
  const gone = worst.irrecoverable_bytes ? `${formatBytes(worst.irrecoverable_bytes)} of it would have been irrecoverable`
    : "none of it would have been irrecoverable";
  const unproven = worst.unproven_bytes ? ` and ${formatBytes(worst.unproven_bytes)} might have been` : "";
  return `At most ${formatBytes(worst.bytes)} were at risk, at ${formatTime(worst.timestamp)}; ${gone}${unproven}, recomputing the rest would have taken `
    + `about ${formatSeconds(worst.recompute_seconds)}. At ${formatTime(last.timestamp)} it was ${formatBytes(last.bytes)}.`;
}

/** A step chart: the value at risk changes at once. */
function steps(moments, value, x, y) {
  const parts = moments.map((each, i) => (i ? `H${x(each.timestamp)} V${y(value(each))}` : `M${x(each.timestamp)} ${y(value(each))}`));
  return `${parts.join(" ")} H${x(Infinity)}`;
}

function picture(moments, worst, description) {
  const [first, last] = [moments[0].timestamp, Math.max(Date.now() / 1000, moments.at(-1).timestamp)];
  const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return plot({ first, last, most: worst.bytes, formatValue: formatBytes, formatPlace: clock, description }, (x, y) => {
    const area = (value) => `${steps(moments, value, x, y)} V${y(0)} H${x(first)} Z`;
    return [
      s("defs", {}, s("pattern", { id: "gone", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        s("line", { x1: 0, y1: 0, x2: 0, y2: 6, class: "hatch" }))),
      s("path", { d: area((each) => each.bytes), class: "some" }),
      s("path", { d: steps(moments, (each) => each.bytes, x, y), class: "someline" }),
      moments.some((each) => each.irrecoverable_bytes) && s("path", { d: area((each) => each.irrecoverable_bytes), class: "gone", fill: HATCHED }),
    ];
  });
}

function legend() {
  return h("p", { class: "legend" }, patch("some"), " at risk  ", patch("gone", HATCHED), " irrecoverable");
}

/** The moments as table rows; of many, every n-th and the last. */
function rows(moments) {
  const step = Math.ceil(moments.length / MOST_ROWS);
  const shownMoments = moments.filter((_, i) => i % step === 0 || i === moments.length - 1);
  const head = ["time", "at risk", "irrecoverable", "unproven", "time to recompute"];
  return h("table", {}, h("caption", {}, "At risk over time"),
    h("thead", {}, h("tr", {}, head.map((title, i) => h("th", { scope: "col", class: i && "number" }, title)))),
    h("tbody", {}, shownMoments.map((each) => h("tr", {}, h("td", {}, formatTime(each.timestamp)),
      h("td", { class: "number" }, formatBytes(each.bytes)), h("td", { class: "number" }, formatBytes(each.irrecoverable_bytes)),
      h("td", { class: "number" }, formatBytes(each.unproven_bytes)),
      h("td", { class: "number" }, formatSeconds(each.recompute_seconds))))));
}
