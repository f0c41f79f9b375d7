// The axes of a chart of values over time: two scales, grid lines, first and last time.

import { s } from "./elements.js";

const WIDTH = 760;
const HEIGHT = 190;
const EDGE = { left: 70, right: 12, top: 12, bottom: 26 };

/**
 * A picture in which time goes from `first` to `last` and values from `least` to `most`; `draw` is given the scales `x`
 * and `y`, and gives what is on the ground. `formatValue` and `formatPlace` write at the sides; `description` is said of it all.
 */
export function plot({ first, last, least = 0, most, formatValue, formatPlace, description }, draw) {
  const across = WIDTH - EDGE.left - EDGE.right;
  const floor = HEIGHT - EDGE.bottom;
  const round = (value) => Math.round(value * 10) / 10;
  const x = (at) => round(EDGE.left + (across * (Math.min(at, last) - first)) / (last - first || 1));
  const y = (value) => round(floor - ((floor - EDGE.top) * (value - least)) / (most - least || 1));
  const line = (value) => [s("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(value), y2: y(value), class: "axis" }),
    s("text", { x: EDGE.left - 8, y: y(value) + 4, class: "end" }, formatValue(value))];
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": description },
    (most > least ? [least, (least + most) / 2, most] : [least]).map(line), draw(x, y),
    s("text", { x: EDGE.left, y: HEIGHT - 8 }, formatPlace(first)),
    s("text", { x: WIDTH - EDGE.right, y: HEIGHT - 8, class: "end" }, formatPlace(last)));
}

/** A patch of the legend, filled or drawn as the class and the fill say. */
export function patch(kind, fill = null) {
  return s("svg", { viewBox: "0 0 16 12", width: 16, height: 12, class: "chart", "aria-hidden": "true" },
    s("rect", { width: 16, height: 12, class: kind, fill }));
}
