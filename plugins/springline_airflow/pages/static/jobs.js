// The jobs that the user may read, with health and lag.

import { query } from "./api.js";
import { h, table } from "./elements.js";
import { poll, showStatus } from "./shell.js";
import { healthBadge, lagOf } from "./health.js";
import { formatCount, formatBytes, formatNumber, formatSeconds, formatTime } from "./format.js";
import { morph } from "./morph.js";

/** Show them in `place`, from now on. */
export function showJobs(place) {
  const count = h("p", { class: "count", role: "status" });
  const rows = h("div");
  place.append(count, rows);
  showStatus("loading …");
  poll(() => "streams", ({ streams }) => {
    const run = streams.filter((jobStatus) => jobStatus.state === "running").length;
    morph(count, streams.length ? `${formatCount(streams.length, "job")}, ${run} running` : "");
    morph(rows, streams.length ? jobsTable(streams) : h("p", { class: "empty" },
      "There is no stream job that you may read. Jobs are declared in streams.toml, or in the file that SPRINGLINE_STREAMS_FILE names."));
  });
}

const most = (jobStatus, of) => Math.max(0, ...Object.values(jobStatus.stages).map(of));
const orEmpty = (value, format) => (value === null ? "" : format(value));

/** The stages that throttle others, or are throttled. */
function pressed({ backpressure }) {
  return Object.entries(backpressure.stages ?? {}).filter(([, stage]) => stage.state !== "normal");
}

function jobsTable(streams) {
  const columns = [
    { title: "job", cell: ({ jobStatus }) => h("a", { href: `streams${query({ job: jobStatus.job })}` }, jobStatus.job) },
    { title: "state", cell: ({ jobStatus }) => [healthBadge(jobStatus.state), jobStatus.error && h("p", { class: "trouble wrong" }, jobStatus.error)] },
    { title: "running since", cell: ({ jobStatus }) => formatTime(jobStatus.started_at) },
    { title: "rounds", number: true, cell: ({ jobStatus }) => orEmpty(most(jobStatus, (stage) => stage.round) || null, formatNumber) },
    { title: "lag (messages)", number: true, cell: ({ lag }) => orEmpty(lag.messages, formatNumber) },
    { title: "queued (bytes)", number: true, cell: ({ lag }) => orEmpty(lag.bytes, formatBytes) },
    { title: "time to drain", number: true, cell: ({ lag }) => orEmpty(lag.seconds, formatSeconds) },
    { title: "back-pressure", cell: ({ jobStatus }) => pressed(jobStatus).map(([name, { state }]) => h("div", { class: "short" }, `${name} `, healthBadge(state))) },
    { title: "batch duration", number: true, cell: ({ jobStatus }) => orEmpty(most(jobStatus, (stage) => stage.seconds) || null, formatSeconds) },
    { title: "last round", cell: ({ jobStatus }) => formatTime(most(jobStatus, (stage) => stage.round_ended_at) || null) },
  ];
  return table("Stream jobs", columns, streams.map((jobStatus) => ({ jobStatus, lag: lagOf(jobStatus) })), ({ jobStatus }) => jobStatus.job);
}
