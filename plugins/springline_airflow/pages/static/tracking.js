// Tracking: records in flight, completed, retried and failed; how long completion takes, and up to where all is completed.

import { jobUrl } from "./api.js";
import { h, table, tiles } from "./elements.js";
import { liveSection } from "./live_section.js";
import { formatBytes, formatCount, formatNumber, formatSeconds } from "./format.js";

/** The section of a job's page. */
export function trackingPart(job) {
  return liveSection("Tracking", () => jobUrl(job, "tracking"), summary).part;
}

function summary(tracking) {
  const latency = Object.entries(tracking.seconds).filter(([, seconds]) => seconds !== null)
    .map(([percentile, seconds]) => `${percentile} ${formatSeconds(seconds)}`).join(", ");
  return [
    tracking.source_paused && h("p", { class: "wrong" }, "The source is paused: the limit of records in flight (max_in_flight) is reached."),
    tracking.pause_reason && h("p", {}, `Timeouts are paused: ${tracking.pause_reason}.`),
    tiles([
      ["in flight", formatCount(tracking.in_flight, "record")], ["completed", formatNumber(tracking.completed)],
      ["retried", formatNumber(tracking.retried)], ["failed", formatNumber(tracking.failed)],
      ["completion latency", latency], ["acker state", formatBytes(tracking.bytes)],
    ]),
    h("div", { class: "pair" }, marks(tracking.low_watermarks), ackers(tracking.ackers)),
  ];
}

function ackers(rows) {
  return rows.length ? table("Ackers", [
    { title: "acker", number: true, cell: (each) => String(each.acker) },
    { title: "in flight", number: true, cell: (each) => formatNumber(each.in_flight) },
    { title: "completed", number: true, cell: (each) => formatNumber(each.completed) },
    { title: "ring epoch", number: true, cell: (each) => String(each.epoch) },
  ], rows, (each) => `acker ${each.acker}`) : "";
}

/** The offset of each partition before which every record is completed. */
function marks(lowWatermarks) {
  const rows = Object.entries(lowWatermarks);
  if (!rows.length) return "";
  return table("Completed up to (low watermark)", [
    { title: "partition", number: true, cell: ([partition]) => partition },
    { title: "all records are completed before offset", number: true, cell: ([, offset]) => formatNumber(offset) },
  ], rows, ([partition]) => `partition ${partition}`);
}
