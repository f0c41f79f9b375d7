// Lines through points over time, and the small curve of a tile or a cell of a table.

import { s } from "./elements.js";

/**
 * The unbroken parts of a list of points `[at, value]`: a value that is null, or a distance in time above `gap`, is a gap.
 */
export function segmentsOf(points, gap = Infinity) {
  const segments = [];
  let before = null;
  for (const point of points) {
    const [at, value] = point;
    if (value === null || value === undefined) {
      before = null;
      continue;
    }
    if (before === null || at - before > gap) segments.push([]);
    segments.at(-1).push(point);
    before = at;
  }
  return segments;
}

/** The `d` of a path through segments; with `step`, a value holds until the next one. A lone point is a short line. */
export function linePath(segments, x, y, { step = false } = {}) {
  return segments.map((points) => {
    const parts = points.map(([at, value], i) => (i === 0 ? `M${x(at)} ${y(value)}` : step ? `H${x(at)} V${y(value)}` : `L${x(at)} ${y(value)}`));
    return points.length === 1 ? `${parts[0]} h0.1` : parts.join(" ");
  }).join(" ");
}

/** The same as areas above `base`. */
export function areaPath(segments, x, y, base = 0, { step = false } = {}) {
  return segments.map((points) => `${linePath([points], x, y, { step })} V${y(base)} H${x(points[0][0])} Z`).join(" ");
}

/** The times between segments, of which nothing is known, as bands behind the curves; `ground` as `plot` gives it. */
export function gapBands(segments, x, { top, floor }) {
  return segments.slice(1).map((points, i) => {
    const [left, right] = [x(segments[i].at(-1)[0]), x(points[0][0])];
    return s("rect", { class: "gap", x: left, y: top, width: right - left, height: floor - top }, s("title", {}, "no data"));
  });
}

/** A small curve of points `[at, value]` without axes, gaps shown; `tone` is a class that gives its colour. */
export function sparkline(points, { width = 120, height = 28, description, tone = "", gap = Infinity } = {}) {
  const segments = segmentsOf(points, gap);
  const known = segments.flat();
  const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, class: `sparkline ${tone}`, role: "img", "aria-label": description };
  if (!known.length) return s("svg", attributes);
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const least = Math.min(0, ...known.map(([, value]) => value));
  const most = Math.max(0, ...known.map(([, value]) => value));
  const round = (value) => Math.round(value * 10) / 10;
  const x = (at) => round(3 + ((width - 6) * (at - first)) / (last - first || 1));
  const y = (value) => round(height - 3 - ((height - 6) * (value - least)) / (most - least || 1));
  const [at, value] = known.at(-1);
  return s("svg", attributes,
    s("path", { class: "under", d: areaPath(segments, x, y) }),
    s("path", { class: "over", d: linePath(segments, x, y) }),
    at === last && s("circle", { class: "now", cx: x(at), cy: y(value), r: 2.5 }));
}
