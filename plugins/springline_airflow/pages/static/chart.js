// What was at risk over time, as a picture by hand, with the same in words and in a table.

import { h, s } from "./elements.js";
import { patch, plot } from "./plot.js";
import { sayBytes, saySeconds, sayTime } from "./saying.js";

const MOST_ROWS = 20;
const HATCHED = "url(#gone)";

/** The chart of moments `{at, bytes, unproven_bytes, irrecoverable_bytes, recompute_seconds}`, the oldest first. */
export function chart(moments) {
  if (!moments.length) return h("p", { class: "empty" }, "Nothing was recorded in this time.");
  const worst = moments.reduce((most, each) => (each.bytes > most.bytes ? each : most));
  const words = inWords(moments, worst);
  return h("figure", {}, picture(moments, worst, words), h("figcaption", {}, legend(), h("p", {}, words)),
    h("details", {}, h("summary", {}, "As a table"), rows(moments)));
}

function inWords(moments, worst) {
  const last = moments.at(-1);
  if (!worst.bytes) return "Nothing was at risk in this time.";
  const gone = worst.irrecoverable_bytes ? `${sayBytes(worst.irrecoverable_bytes)} of it would have been gone for good`
    : "none of it would have been gone for good";
  const unproven = worst.unproven_bytes ? ` and ${sayBytes(worst.unproven_bytes)} might have been` : "";
  return `At most ${sayBytes(worst.bytes)} were at risk, at ${sayTime(worst.at)}; ${gone}${unproven}, the rest would have taken `
    + `about ${saySeconds(worst.recompute_seconds)} to make again. At ${sayTime(last.at)} it was ${sayBytes(last.bytes)}.`;
}

/** Heights hold until the next moment: what is at risk changes at once, not bit by bit. */
function steps(moments, value, x, y) {
  const parts = moments.map((each, i) => (i ? `H${x(each.at)} V${y(value(each))}` : `M${x(each.at)} ${y(value(each))}`));
  return `${parts.join(" ")} H${x(Infinity)}`;
}

function picture(moments, worst, words) {
  const [first, last] = [moments[0].at, Math.max(Date.now() / 1000, moments.at(-1).at)];
  const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return plot({ first, last, most: worst.bytes, sayValue: sayBytes, sayPlace: clock, words }, (x, y) => {
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
  return h("p", { class: "legend" }, patch("some"), " at risk  ", patch("gone", HATCHED), " of it, gone for good");
}

/** The moments as rows: where there are many, every so manyth and the last. */
function rows(moments) {
  const step = Math.ceil(moments.length / MOST_ROWS);
  const chosen = moments.filter((_, i) => i % step === 0 || i === moments.length - 1);
  const head = ["when", "at risk", "gone for good", "unproven", "made again in"];
  return h("table", {}, h("caption", {}, "At risk over time"),
    h("thead", {}, h("tr", {}, head.map((title, i) => h("th", { scope: "col", class: i && "number" }, title)))),
    h("tbody", {}, chosen.map((each) => h("tr", {}, h("td", {}, sayTime(each.at)),
      h("td", { class: "number" }, sayBytes(each.bytes)), h("td", { class: "number" }, sayBytes(each.irrecoverable_bytes)),
      h("td", { class: "number" }, sayBytes(each.unproven_bytes)),
      h("td", { class: "number" }, saySeconds(each.recompute_seconds))))));
}
