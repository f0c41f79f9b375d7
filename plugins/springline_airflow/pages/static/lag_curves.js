// The lag and the throughput of a job in the last hour, as two curves over the same time.

import { jobUrl } from "./api.js";
import { linePath, segmentsOf } from "./curves.js";
import { h, s } from "./elements.js";
import { liveSection } from "./live_section.js";
import { plot } from "./plot.js";
import { formatClock, formatCount, formatNumber, formatRate, formatSeconds } from "./format.js";

const EVERY = 10_000; // milliseconds, as long as the job needs for another point
const GAP = 3; // intervals without a point that are a gap

/** The section of a job's page. */
export function lagSection(job) {
  return liveSection("Lag and throughput", () => jobUrl(job, "history"), curves, { every: EVERY }).part;
}

function curves({ interval, points }) {
  if (points.length < 2) return h("p", { class: "empty" }, "The curves begin when the job has run for twenty seconds.");
  const hasRows = points.some((point) => point.rows_per_second !== null);
  return h("div", { class: "pair" },
    curve("Lag (messages)", points, (point) => point.lag, formatNumber, (point) => (point.lag === null ? "lag unknown" : point.lag === 0 ? "no lag"
      : `${formatCount(point.lag, "message")} behind${point.drain_seconds === null ? "" : `, ${formatSeconds(point.drain_seconds)} to drain`}`), interval),
    hasRows ? curve("Throughput (rows/s)", points, (point) => point.rows_per_second, formatNumber, (point) => formatRate(point.rows_per_second, "rows") || "unknown", interval)
      : curve("Throughput (B/s)", points, (point) => point.bytes_per_second, formatRate, (point) => formatRate(point.bytes_per_second) || "unknown", interval));
}

function curve(title, points, of, formatValue, inWords, interval) {
  const segments = segmentsOf(points.map((point) => [point.sampled_at, of(point)]), GAP * interval);
  const places = points.map((point) => point.sampled_at);
  const most = Math.max(10, ...segments.flat().map(([, value]) => value));
  const byPlace = new Map(points.map((point) => [point.sampled_at, point]));
  const now = `${inWords(points.at(-1))} at ${formatClock(places.at(-1))}`;
  return h("figure", {}, h("figcaption", {}, h("strong", {}, title), ` ${now}`),
    plot({ first: places[0], last: places.at(-1), most, formatValue, formatPlace: formatClock, places,
      description: `${title} in the last hour: ${now}`, readout: (at) => `${formatClock(at)}: ${inWords(byPlace.get(at))}` },
    (x, y) => s("path", { class: "line series-0", d: linePath(segments, x, y) })));
}
