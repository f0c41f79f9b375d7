// Tracking: what is in flight, completed, sent again and given up, and the records that failed, to be sent again.

import { jobUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h, table, tiles } from "./elements.js";
import { RARELY, liveSection } from "./live_section.js";
import { formatBytes, formatNumber, formatSeconds } from "./format.js";

const LAST = 20; // failed records, the newest

/** The parts of a job's page; who may change the job may have failed records sent again. */
export function trackingParts(job, mayChange) {
  const counts = liveSection("Tracking", () => jobUrl(job, "tracking"), summary);
  const send = (each, opener) => retryRecord(job, each, opener, () => failed.refresh());
  const show = (answer) => failedTable(answer, mayChange ? send : null);
  const failed = liveSection("Failed records", () => `${jobUrl(job, "tracking", "failed")}?last=${LAST}`, show, { every: RARELY });
  return [counts.part, failed.part];
}

function summary(tracking) {
  const { p50, p90, p99 } = tracking.seconds;
  const times = [["half", p50], ["90 %", p90], ["99 %", p99]].filter(([, seconds]) => seconds !== null)
    .map(([share, seconds]) => `${share} within ${formatSeconds(seconds)}`).join(", ");
  const marks = Object.entries(tracking.low_watermarks).map(([partition, offset]) => `${partition}: ${formatNumber(offset)}`).join(", ");
  return [
    tracking.waits && h("p", { class: "wrong" }, "The source waits: as many records are in flight as there may be."),
    tracking.pause_reason && h("p", {}, `Time-outs stand still: ${tracking.pause_reason}.`),
    tiles([
      ["in flight", formatNumber(tracking.in_flight)], ["completed", formatNumber(tracking.completed)],
      ["sent again", formatNumber(tracking.retried)], ["given up", formatNumber(tracking.failed)],
      ["held by ackers", formatBytes(tracking.bytes)], ["complete", times], ["completed up to offset (low-water mark)", marks],
    ]),
    tracking.ackers.length ? table("Ackers", [
      { title: "acker", number: true, cell: (each) => String(each.acker) },
      { title: "in flight", number: true, cell: (each) => formatNumber(each.in_flight) },
      { title: "completed", number: true, cell: (each) => formatNumber(each.completed) },
      { title: "epoch of the ring", number: true, cell: (each) => String(each.epoch) },
    ], tracking.ackers, (each) => `acker ${each.acker}`) : "",
  ];
}

function failedTable({ failed }, send) {
  if (!failed.length) return h("p", { class: "empty" }, "No record was given up.");
  const columns = [
    { title: "when", cell: (each) => new Date(each.failed_at).toLocaleString() },
    { title: "partition", number: true, cell: (each) => String(each.partition) },
    { title: "offset", number: true, cell: (each) => formatNumber(each.offset) },
    { title: "why", wide: true, cell: (each) => each.reason },
    { title: "content", wide: true, cell: (each) => h("code", { class: "content" }, each.content) },
    { title: "again", cell: (each) => (each.retried_at ? `sent ${new Date(each.retried_at).toLocaleString()}` : sender(each, send)) },
  ];
  const shownColumns = columns.filter(({ title }) => title !== "again" || failed.some((each) => each.retried_at || (send && each.may_retry)));
  return table(`The newest ${LAST} records that were given up or could not be used, the newest first`, shownColumns,
    [...failed].reverse(), (each) => each.record);
}

function sender(each, send) {
  if (!send || !each.may_retry) return "";
  const name = `Send again: partition ${each.partition}, offset ${each.offset}`;
  return h("button", { type: "button", "aria-label": name, onclick: (event) => send(each, event.currentTarget) }, "Send again");
}

function retryRecord(job, each, opener, onDone) {
  const message = `What partition ${each.partition} holds at offset ${each.offset} is sent to the end of that partition, as a new record. `
    + "What came of it before stays.";
  openConfirmation("Send again", opener, async () => ({ allowed: true, message }), async () => {
    await post(jobUrl(job, "tracking", "failed", encodeURIComponent(each.record), "retry"), {});
    onDone();
  });
}
