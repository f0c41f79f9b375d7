// Tracking: roots in flight, completed, retried and failed, and the failed records with their retry.

import { jobUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h, table, tiles } from "./elements.js";
import { RARELY, liveSection } from "./live_section.js";
import { formatBytes, formatNumber, formatSeconds } from "./format.js";

const LAST = 20; // failed records, the newest

/** The sections of a job's page; a user who may change the job can retry failed records. */
export function trackingParts(job, mayChange) {
  const counts = liveSection("Tracking", () => jobUrl(job, "tracking"), summary);
  const send = (each, opener) => retryRecord(job, each, opener, () => failed.refresh());
  const show = (answer) => failedTable(answer, mayChange ? send : null);
  const failed = liveSection("Failed records", () => `${jobUrl(job, "tracking", "failed")}?limit=${LAST}`, show, { every: RARELY });
  return [counts.part, failed.part];
}

function summary(tracking) {
  const { p50, p90, p99 } = tracking.seconds;
  const times = [["50 %", p50], ["90 %", p90], ["99 %", p99]].filter(([, seconds]) => seconds !== null)
    .map(([share, seconds]) => `${share} within ${formatSeconds(seconds)}`).join(", ");
  const marks = Object.entries(tracking.low_watermarks).map(([partition, offset]) => `${partition}: ${formatNumber(offset)}`).join(", ");
  return [
    tracking.source_paused && h("p", { class: "wrong" }, "The source is paused: the limit of records in flight (max_in_flight) is reached."),
    tracking.pause_reason && h("p", {}, `Timeouts are paused: ${tracking.pause_reason}.`),
    tiles([
      ["in flight", formatNumber(tracking.in_flight)], ["completed", formatNumber(tracking.completed)],
      ["retried", formatNumber(tracking.retried)], ["failed", formatNumber(tracking.failed)],
      ["acker state", formatBytes(tracking.bytes)], ["completion latency", times], ["completed up to offset (low watermark)", marks],
    ]),
    tracking.ackers.length ? table("Ackers", [
      { title: "acker", number: true, cell: (each) => String(each.acker) },
      { title: "in flight", number: true, cell: (each) => formatNumber(each.in_flight) },
      { title: "completed", number: true, cell: (each) => formatNumber(each.completed) },
      { title: "ring epoch", number: true, cell: (each) => String(each.epoch) },
    ], tracking.ackers, (each) => `acker ${each.acker}`) : "",
  ];
}

function failedTable({ failed }, send) {
  if (!failed.length) return h("p", { class: "empty" }, "No record has failed.");
  const columns = [
    { title: "time", cell: (each) => new Date(each.failed_at).toLocaleString() },
    { title: "partition", number: true, cell: (each) => String(each.partition) },
    { title: "offset", number: true, cell: (each) => formatNumber(each.offset) },
    { title: "reason", wide: true, cell: (each) => each.reason },
    { title: "content", wide: true, cell: (each) => h("code", { class: "content" }, each.content) },
    { title: "retry", cell: (each) => (each.retried_at ? `retried ${new Date(each.retried_at).toLocaleString()}` : sender(each, send)) },
  ];
  const shownColumns = columns.filter(({ title }) => title !== "retry" || failed.some((each) => each.retried_at || (send && each.may_retry)));
  return table(`The ${LAST} newest records that failed or could not be decoded, newest first`, shownColumns,
    [...failed].reverse(), (each) => each.record);
}

function sender(each, send) {
  if (!send || !each.may_retry) return "";
  const name = `Retry: partition ${each.partition}, offset ${each.offset}`;
  return h("button", { type: "button", "aria-label": name, onclick: (event) => send(each, event.currentTarget) }, "Retry");
}

function retryRecord(job, each, opener, onDone) {
  const message = `The record at offset ${each.offset} of partition ${each.partition} is appended to that partition as a new record. `
    + "Effects of its earlier attempts remain.";
  openConfirmation("Retry", opener, async () => ({ allowed: true, message }), async () => {
    await post(jobUrl(job, "tracking", "failed", encodeURIComponent(each.record), "retry"), {});
    onDone();
  });
}
