// A chart of values over time: axes with round ticks, a marked point, and the values at the moment that one points at.

import { h, s, write } from "./elements.js";
import { niceTicks, tickText, timeTicks } from "./ticks.js";

const HEIGHT = 200;
const WIDTH = 760; // until the chart has a place
const EDGE = { left: 44, right: 14, top: 14, bottom: 26 };
const LETTER = 7; // pixels, at most on average
const FAR_APART = 90; // pixels between two times
const CLOCK_SECONDS = 1e8; // a place above is a moment in seconds since 1970
const CLOCK_MILLISECONDS = 1e11;
const KEYS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/**
 * A chart in which places go from `first` to `last` and values from `least` to `most`. Places are moments in seconds or
 * milliseconds since 1970, or plain numbers; `formatPlace` writes one, `formatValue` a value with its unit. `draw` is given the
 * scales `x` and `y` and the `{left, right, top, floor}` of the ground in pixels, and returns what is drawn on it.
 * `description` says what the chart shows. Optional: `mark` is a point `{at, value, label}`; `places` are those that one can
 * point at, and `readout` returns the text at one of them.
 * The element fills the width of its place, and is drawn again when that changes.
 */
export function plot(options, draw) {
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const element = h("div", { class: "plot" });
  element.drawing = { options, draw };
  element.pointed = null; // the index of the place that the user points at
  element.redraw = () => render(element, readout);
  element.redraw();
  new ResizeObserver(() => element.clientWidth && element.clientWidth !== element.drawnWidth && element.redraw()).observe(element);
  if (options.readout) listen(element);
  return element;
}

function render(element, readout) {
  const { options, draw } = element.drawing;
  const { readout: textAt, places = [], description } = options;
  element.drawnWidth = element.clientWidth || WIDTH;
  const scales = scalesOf(options, element.drawnWidth);
  const picture = s("svg", { width: element.drawnWidth, height: HEIGHT, class: "chart", role: "img", "aria-label": description },
    valueAxis(options, scales), placeAxis(options, scales), draw(scales.x, scales.y, scales.ground), marked(options, scales));
  if (!textAt) {
    element.replaceChildren(picture);
    return;
  }
  element.setAttribute("tabindex", "0");
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", "Chart: the arrow keys read its values");
  const at = element.pointed === null ? null : places[Math.min(element.pointed, places.length - 1)];
  if (at !== null && at !== undefined) {
    const { top, floor } = scales.ground;
    picture.append(s("line", { class: "crosshair", x1: scales.x(at), x2: scales.x(at), y1: top, y2: floor }));
  }
  write(readout, at === null || at === undefined ? "" : textAt(at));
  if (readout.parentNode === element) element.firstChild.replaceWith(picture);
  else element.replaceChildren(picture, readout);
  element.placeAt = (pixels) => nearest(places, scales.x, pixels);
}

function scalesOf({ first, last, least = 0, most, formatValue }, width) {
  const values = niceTicks(least, most);
  const longest = Math.max(...values.map((value) => formatValue(value).length));
  const left = Math.max(EDGE.left, longest * LETTER + 16);
  const ground = { left, right: width - EDGE.right, top: EDGE.top, floor: HEIGHT - EDGE.bottom };
  const [low, high] = [values[0], values.at(-1)];
  const round = (pixels) => Math.round(pixels * 10) / 10;
  const x = (at) => round(ground.left + ((ground.right - ground.left) * (Math.min(at, last) - first)) / (last - first || 1));
  const y = (value) => round(ground.floor - ((ground.floor - ground.top) * (value - low)) / (high - low || 1));
  return { x, y, ground, values };
}

function valueAxis({ formatValue }, { y, ground, values }) {
  return values.map((value) => [s("line", { x1: ground.left, x2: ground.right, y1: y(value), y2: y(value), class: "axis" }),
    s("text", { x: ground.left - 8, y: y(value) + 4, class: "end" }, formatValue(value))]);
}

function placeAxis({ first, last, formatPlace }, { x, ground }) {
  const count = Math.max(2, Math.floor((ground.right - ground.left) / FAR_APART));
  const perSecond = first > CLOCK_MILLISECONDS ? 1000 : first > CLOCK_SECONDS ? 1 : null;
  const ticks = perSecond === null ? niceTicks(first, last, count).filter((at) => at >= first && at <= last)
    : timeTicks(first / perSecond, last / perSecond, count).map((at) => at * perSecond);
  const step = perSecond && (ticks[1] - ticks[0]) / perSecond;
  const text = (at) => (step ? tickText(at / perSecond, step) : formatPlace(at));
  const shown = ticks.length > 1 ? ticks : [first];
  return shown.map((at) => [s("line", { x1: x(at), x2: x(at), y1: ground.floor, y2: ground.floor + 4, class: "axis" }),
    s("text", { x: x(at), y: HEIGHT - 8, class: x(at) > ground.right - FAR_APART / 4 ? "end" : "middle" }, text(at))]);
}

function marked({ mark = null }, { x, y, ground }) {
  if (!mark) return null;
  const [left, above] = [x(mark.at), y(mark.value)];
  const isRight = left > (ground.left + ground.right) / 2;
  const line = above < ground.top + 12 ? above + 16 : above - 8; // below the point where there is no room above
  return [s("circle", { class: "mark", cx: left, cy: above, r: 4 }),
    s("text", { class: isRight ? "mark end" : "mark", x: left + (isRight ? -8 : 8), y: line }, mark.label)];
}

/** The index of the place that is drawn nearest to these pixels; `places` are in order. */
function nearest(places, x, pixels) {
  let [low, high] = [0, places.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x(places[middle]) < pixels) low = middle;
    else high = middle;
  }
  return Math.abs(x(places[low]) - pixels) <= Math.abs(x(places[high]) - pixels) ? low : high;
}

function listen(element) {
  const point = (index) => {
    if (index === element.pointed) return;
    element.pointed = index;
    element.redraw();
  };
  element.addEventListener("pointermove", (event) => {
    if (element.drawing.options.places?.length) point(element.placeAt(event.clientX - element.getBoundingClientRect().left));
  });
  element.addEventListener("pointerleave", () => point(null));
  element.addEventListener("keydown", (event) => {
    const count = element.drawing.options.places?.length ?? 0;
    if (!count || !(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const from = element.pointed ?? (KEYS[event.key] < 0 ? count : -1);
    point(Math.max(0, Math.min(count - 1, from + KEYS[event.key])));
  });
}

/** A patch of the legend, filled or drawn as the class and the fill say. */
export function patch(kind, fill = null) {
  return s("svg", { viewBox: "0 0 16 12", width: 16, height: 12, class: "chart", "aria-hidden": "true" },
    s("rect", { width: 16, height: 12, class: kind, fill }));
}
