// Result rows as lines over the ends of their windows: pure functions first, then the chart and its description.

import { h, s } from "./elements.js";
import { plot } from "./plot.js";
import { formatCount, formatNumber, isNumber } from "./format.js";

const BOUNDS = new Set(["query", "window_start", "window_end"]); // what every row has
const MOST = 6; // lines
const DAY = 86_400_000; // milliseconds

/** The columns of rows that hold numbers, and those that do not. */
export function columnsOf(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))].filter((name) => !BOUNDS.has(name));
  const numeric = (name) => rows.every((row) => isNumber(row[name]));
  return { numbers: names.filter(numeric), others: names.filter((name) => !numeric(name)) };
}

/**
 * The lines of a column's values, one for each combination of the columns `by`, those with the greatest values first:
 * `{name, points}`, a point being `[end, value]`, in order, without infinite ones; and how many lines there are besides.
 */
export function linesOf(rows, value, by) {
  const lines = new Map();
  for (const row of rows) {
    if (typeof row[value] !== "number") continue;
    const name = by.map((column) => row[column] ?? "null").join(", ") || value;
    const end = typeof row.window_end === "number" ? row.window_end : Date.parse(row.window_end);
    if (!lines.has(name)) lines.set(name, []);
    lines.get(name).push([end, row[value]]);
  }
  const height = ({ points }) => Math.max(...points.map(([, of]) => of));
  const sorted = [...lines].map(([name, points]) => ({ name, points: points.sort((a, b) => a[0] - b[0]) }))
    .sort((a, b) => height(b) - height(a) || (a.name < b.name ? -1 : 1));
  return { lines: sorted.slice(0, MOST), more: Math.max(0, sorted.length - MOST) };
}

/** The chart of rows. */
export function seriesChart(rows, value, by) {
  const { lines, more } = linesOf(rows, value, by);
  if (!lines.length) return h("p", { class: "empty" }, "No numeric column to plot.");
  const all = lines.flatMap((line) => line.points);
  const [first, last] = [Math.min(...all.map(([end]) => end)), Math.max(...all.map(([end]) => end))];
  const [least, most] = [Math.min(0, ...all.map(([, of]) => of)), Math.max(0, ...all.map(([, of]) => of))];
  const timed = rows.some((row) => typeof row.window_end === "string");
  const formatPlace = (end) => (timed ? moment(end, last - first) : `row ${formatNumber(end)}`);
  const description = `${value} up to ${formatPlace(last)}: ${lines.map(({ name, points }) => `${name} ${formatNumber(points.at(-1)[1])}`).join("; ")}`;
  const places = [...new Set(all.map(([end]) => end))].sort((a, b) => a - b);
  const readout = (at) => `${formatPlace(at)}: ${lines.map(({ name, points }) => [name, points.find(([end]) => end === at)]).filter(([, point]) => point)
    .map(([name, [, of]]) => `${name} ${formatNumber(of)}`).join(", ")}`;
  return h("figure", {}, plot({ first, last, least, most, formatValue: formatNumber, formatPlace, description, places, readout }, (x, y) => lines.map(({ points }, i) => [
    s("path", { class: `line series-${i}`, d: points.map(([end, of], at) => `${at ? "L" : "M"}${x(end)} ${y(of)}`).join(" ") }),
    points.length < 40 && points.map(([end, of]) => s("circle", { cx: x(end), cy: y(of), r: 2.5, class: `point series-${i}` })),
  ])), h("figcaption", {}, h("p", { class: "legend keys" }, lines.map(({ name, points }, i) =>
    h("span", {}, key(i), ` ${name}: ${formatNumber(points.at(-1)[1])}`)), more > 0 && h("span", {}, `and ${formatCount(more, "line")} more`))));
}

function key(i) {
  return s("svg", { viewBox: "0 0 26 10", width: 26, height: 10, class: "chart", "aria-hidden": "true" },
    s("path", { d: "M0 5 H26", class: `line series-${i}` }));
}

function moment(end, span) {
  const shown = { hour: "2-digit", minute: "2-digit", ...(span < 600_000 ? { second: "2-digit" } : {}) };
  return new Date(end).toLocaleString([], span < DAY ? shown : { year: "numeric", month: "short", day: "numeric", ...shown });
}
