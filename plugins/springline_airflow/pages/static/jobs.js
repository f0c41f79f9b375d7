// The jobs that the user may read, the worst first: health and why, lag and throughput with their last ten minutes.

import { query } from "./api.js";
import { sparkline } from "./curves.js";
import { emptyState, h, table, timeElement } from "./elements.js";
import { poll, showStatus } from "./shell.js";
import { HEALTHS, deadLettersOf, healthBadge, healthReason, isAlive, lagOf, watermarkOf } from "./health.js";
import { formatCount, formatNumber, formatRate, formatSeconds } from "./format.js";
import { morph } from "./morph.js";

const POINTS = 60; // of a small curve: ten minutes
const GAP = 30; // seconds without a point that are a gap

/** Show them in `place`, from now on. */
export function showJobs(place) {
  const count = h("p", { class: "count healths", role: "status" });
  const rows = h("div");
  place.append(count, rows);
  showStatus("loading …");
  poll(() => `streams${query({ history: POINTS })}`, ({ streams }) => {
    morph(count, ...(streams.length ? counts(streams) : []));
    morph(rows, streams.length ? jobsTable(streams) : emptyState("There is no stream job that you may read",
      "Jobs are declared in streams.toml, or in the file that SPRINGLINE_STREAMS_FILE names."));
  });
}

/** How many jobs there are, and how many of each health. */
function counts(streams) {
  const of = (health) => streams.filter((job) => job.health === health).length;
  return [h("span", {}, formatCount(streams.length, "job")), ...HEALTHS.filter(of).map((health) => h("span", { class: "tally" }, `${of(health)} `, healthBadge(health)))];
}

function jobsTable(streams) {
  return table("Stream jobs, the worst first", [
    { title: "job", cell: ({ job }) => h("a", { href: `streams${query({ job })}`, class: "name" }, job) },
    { title: "health", cell: (job) => [healthBadge(job.health), h("p", { class: "reason" }, healthReason(job))] },
    { title: "lag", cell: lagCell, narrow: true },
    { title: "throughput", cell: throughputCell, narrow: true },
    { title: "watermark", cell: (job) => delay(watermarkOf(job), job.heartbeat_at), narrow: true },
    { title: "dead letters", number: true, cell: deadLettersCell },
    { title: "running since", cell: ({ started_at: began }) => timeElement(began), narrow: true },
  ], streams, ({ job }) => job);
}

function lagCell(job) {
  const { messages, seconds } = lagOf(job);
  if (messages === null || !isAlive(job)) return "";
  const text = formatCount(messages, "message");
  return [h("div", {}, text), seconds !== null && messages > 0 && h("div", { class: "faint" }, `${formatSeconds(seconds)} to drain`),
    curve(job, (point) => point.lag, `Lag in the last ten minutes, now ${text}`, job.health)];
}

function throughputCell(job) {
  const last = job.history.at(-1);
  if (!last || !isAlive(job)) return "";
  const [of, unit] = last.rows_per_second === null ? [(point) => point.bytes_per_second, null] : [(point) => point.rows_per_second, "rows"];
  const text = formatRate(of(last), unit);
  return text && [h("div", {}, text), curve(job, of, `Throughput in the last ten minutes, now ${text}`)];
}

function curve({ history }, of, description, tone = "") {
  const points = history.map((point) => [point.sampled_at, of(point)]);
  return points.length > 1 && h("div", {}, sparkline(points, { width: 96, height: 24, description, tone, gap: GAP }));
}

/** How far event time is behind the clock. */
export function delay(watermark, now) {
  return watermark === null || !now ? "" : `${formatSeconds(Math.max(0, now - watermark))} behind`;
}

function deadLettersCell(job) {
  const count = deadLettersOf(job);
  return count ? h("a", { href: `streams${query({ job: job.job })}#dead-letters` }, formatNumber(count)) : "0";
}
