// The page of one job: its health and why, the graph of its stages, its curves, dead letters, and the parts of its kind.

import { jobUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { facts, h, tiles, timeElement } from "./elements.js";
import { poll, airflowLink, showStatus } from "./shell.js";
import { deadLettersOf, healthBadge, healthReason, isAlive, lagOf, watermarkOf } from "./health.js";
import { joinPart } from "./join.js";
import { backpressureSection } from "./backpressure.js";
import { deadLettersSection } from "./dead_letters.js";
import { delay } from "./jobs.js";
import { formatBytes, formatCount, formatNumber, formatSeconds } from "./format.js";
import { lagSection } from "./lag_curves.js";
import { morph } from "./morph.js";
import { stagesTable } from "./stages.js";
import { trackingPart } from "./tracking.js";
import { windowsParts } from "./windows.js";

const PARTS = { queries: windowsParts, tracking: trackingPart, join: joinPart };

/** Show it in `place`, from now on. */
export function showJob(place, job) {
  const head = h("div");
  const details = h("section", { "aria-label": "Stage counters" });
  let isComplete = false;
  document.title = `${job} · Springline`;
  place.append(h("p", { class: "back" }, h("a", { href: "streams" }, "All streams")), head);
  showStatus("loading …");
  const refresh = poll(() => jobUrl(job), (status) => {
    morph(head, ...about(status, () => refresh()).flat(Infinity).filter(Boolean));
    morph(details, h("h2", {}, "Stage counters"), stagesTable(status), ...startOf(status));
    if (isComplete) return;
    isComplete = true;
    const { may_change: mayChange, capabilities } = status;
    place.append(backpressureSection(job, mayChange), lagSection(job), deadLettersSection(job, mayChange),
      ...capabilities.flatMap((name) => PARTS[name](job, mayChange)), details);
  });
}

function about(status, refresh) {
  const lag = lagOf(status);
  const alive = isAlive(status);
  return [
    h("div", { class: "headline" },
      h("h2", { class: "name" }, status.job),
      alive && status.may_change && h("button", { type: "button", class: "danger", onclick: (event) => stop(status.job, refresh, event.currentTarget) }, "Stop")),
    h("p", { class: `summary verdict ${status.health.replaceAll(" ", "-")}`, role: status.health === "failed" ? "alert" : null },
      healthBadge(status.health), " ", healthReason(status)),
    status.error && status.error !== status.health_reason && h("p", { class: "wrong", role: "alert" }, status.error),
    ...Object.values(status.stages).map((stage) => stage.slow_reading && h("p", { class: "wrong" }, `${stage.slow_reading}.`)),
    !status.may_change && h("p", { class: "refused" }, `Read-only: you may not edit the DAG ${status.dag_id}.`),
    tiles([
      ["lag", lag.messages === null || !alive ? "" : formatCount(lag.messages, "message")],
      ["queued", lag.bytes === null || !alive ? "" : formatBytes(lag.bytes)],
      ["time to drain", lag.seconds === null || !alive ? "" : formatSeconds(lag.seconds)],
      ["watermark (event time)", delay(watermarkOf(status), status.heartbeat_at)],
      ["dead letters", h("a", { href: "#dead-letters" }, formatNumber(deadLettersOf(status)))],
      ["running since", timeElement(status.started_at)], ["process", status.pid ?? ""],
      ["supervised by", airflowLink(`dags/${encodeURIComponent(status.dag_id)}`, status.dag_id)],
    ]),
    !alive && h("p", {}, "Trigger its DAG to start it."),
  ];
}

// How long the phases of its start took.
function startOf({ start }) {
  const seconds = start.reduce((total, phase) => total + phase.seconds, 0);
  return start.length ? [h("h2", {}, "Start"), facts([...start.map((phase) => [phase.name, formatSeconds(phase.seconds)]), ["in all", formatSeconds(seconds)]])] : [];
}

function stop(job, refresh, opener) {
  const message = `The application of ${job} stops after its planned rounds. When started again, it resumes from there.`;
  openConfirmation("Stop", opener, async () => ({ allowed: true, message }), async () => {
    await post(jobUrl(job, "stop"), {});
    refresh();
  });
}
