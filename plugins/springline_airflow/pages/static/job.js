// The page of one job: its health, its stages, and the sections of its kind.

import { jobUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h, table, tiles } from "./elements.js";
import { poll, airflowLink, showStatus } from "./shell.js";
import { healthBadge, lagOf } from "./health.js";
import { joinPart } from "./join.js";
import { backpressureSection } from "./backpressure.js";
import { formatBytes, formatNumber, formatSeconds, formatTime } from "./format.js";
import { morph } from "./morph.js";
import { trackingParts } from "./tracking.js";
import { windowsParts } from "./windows.js";

const PARTS = { queries: windowsParts, tracking: trackingParts, join: joinPart };
const OWN = new Set(["rows", "results", "late", "dead_letters"]); // counts that have columns of their own

/** Show it in `place`, from now on. */
export function showJob(place, job) {
  const head = h("div");
  let more = null;
  document.title = `${job} · Springline`;
  place.append(h("p", { class: "back" }, h("a", { href: "streams" }, "All streams")), head);
  showStatus("loading …");
  const refresh = poll(() => jobUrl(job), (jobStatus) => {
    morph(head, ...[about(jobStatus, () => refresh()), stages(jobStatus)].flat(Infinity).filter(Boolean));
    if (more) return;
    more = [backpressureSection(job, jobStatus.may_change), ...jobStatus.capabilities.map((name) => PARTS[name](job, jobStatus.may_change))].flat();
    place.append(...more);
  });
}

function about(jobStatus, refresh) {
  const lag = lagOf(jobStatus);
  const isAlive = ["starting", "running", "silent"].includes(jobStatus.state);
  return [
    h("h2", { class: "name" }, `${jobStatus.job} `, healthBadge(jobStatus.state)),
    jobStatus.error && h("p", { class: "wrong", role: "alert" }, jobStatus.error),
    isAlive && jobStatus.may_change && h("p", { class: "buttons" }, h("button", { type: "button", onclick: (event) => stop(jobStatus.job, refresh, event.currentTarget) }, "Stop")),
    !jobStatus.may_change && h("p", { class: "refused" }, `Read-only: you may not edit the DAG ${jobStatus.dag_id}.`),
    tiles([
      ["lag (messages)", lag.messages === null ? "" : formatNumber(lag.messages)],
      ["queued (bytes)", lag.bytes === null ? "" : formatBytes(lag.bytes)],
      ["time to drain", lag.seconds === null ? "" : formatSeconds(lag.seconds)],
      ["running since", formatTime(jobStatus.started_at)], ["process", jobStatus.pid ?? ""],
      ["supervised by", airflowLink(`dags/${encodeURIComponent(jobStatus.dag_id)}`, jobStatus.dag_id)],
    ]),
    !isAlive && h("p", {}, "Trigger its DAG to start it."),
  ];
}

function stop(job, refresh, opener) {
  const message = `The application of ${job} stops after its planned rounds. When started again, it resumes from there.`;
  openConfirmation("Stop", opener, async () => ({ allowed: true, message }), async () => {
    await post(jobUrl(job, "stop"), {});
    refresh();
  });
}

function stages(jobStatus) {
  const rows = Object.entries(jobStatus.stages);
  if (!rows.length) return h("p", { class: "empty" }, "It has not completed a round yet.");
  const counts = (names) => ([, stage]) => {
    const name = names.find((each) => each in stage.counts);
    return name ? formatNumber(stage.counts[name]) : "";
  };
  const others = ([, stage]) => Object.entries(stage.counts).filter(([name, count]) => count && !OWN.has(name))
    .map(([name, count]) => `${name.replaceAll("_", " ")} ${formatNumber(count)}`).join(", ");
  const number = (title, cell) => ({ title, number: true, cell });
  const columns = [
    { title: "stage", cell: ([name]) => name },
    number("units", ([, stage]) => String(stage.units ?? "")),
    number("round", ([, stage]) => formatNumber(stage.round)),
    number("rows", counts(["rows", "results"])),
    number("lag (messages)", ([, stage]) => formatNumber(stage.lag ?? 0)),
    number("batch duration", ([, stage]) => formatSeconds(stage.seconds ?? null)),
    number("state", ([, stage]) => formatBytes(stage.state_bytes ?? 0)),
    number("late", counts(["late"])),
    number("dead letters", counts(["dead_letters"])),
    { title: "other counters", wide: true, cell: others },
    { title: "last round", cell: ([, stage]) => formatTime(stage.round_ended_at || null) },
  ];
  const shownColumns = columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
  return [h("h2", {}, "Stages"), table("Stages, in processing order", shownColumns, rows, ([name]) => name)];
}
