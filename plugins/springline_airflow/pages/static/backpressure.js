// The stages of a job and their back-pressure: the graph, which stage is slow and why, and the mode.

import { jobUrl, put } from "./api.js";
import { h, table, timeElement, write } from "./elements.js";
import { healthBadge } from "./health.js";
import { liveSection } from "./live_section.js";
import { limitOf, stageGraph, throttlesOf } from "./stage_graph.js";
import { formatBytes, formatRate, formatSeconds, formatShare } from "./format.js";

/** The section of a job's page; a user who may change the job can select another mode. */
export function backpressureSection(job, mayChange) {
  const place = jobUrl(job, "backpressure");
  const errorLine = h("p", { class: "wrong", role: "status" });
  const mode = h("select", { disabled: !mayChange, onchange: choose });
  const form = h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Back-pressure mode", mode), errorLine);

  async function choose() {
    write(errorLine, "");
    try {
      await put(place, { mode: mode.value });
    } catch (error) {
      write(errorLine, error.message);
    }
    refresh();
  }

  const { part, refresh } = liveSection("Stages", () => place, (status) => {
    if (!mode.options.length) mode.append(...status.modes.map((name) => modeOption(name, status.baselines)));
    if (document.activeElement !== mode) mode.value = status.mode;
    const isMeasured = Object.keys(status.stages).length > 0;
    return [
      h("div", { class: "graph-and-words" }, stageGraph(status), h("div", {}, isMeasured && status.state !== "running"
        && h("p", { class: "faint" }, "The job is not running: this is what it reported last."), slowest(status), throttles(status))),
      isMeasured && figures(status),
    ];
  });
  part.append(form);
  return part;
}

function modeOption(name, baselines) {
  return h("option", { value: name }, baselines.includes(name) ? `${name} (baseline, for comparison)` : name);
}

/** Which stage slows the job down. */
function slowest({ bottleneck, stages }) {
  if (!Object.keys(stages).length) return "";
  if (!bottleneck) return h("p", { class: "slowest" }, "No stage is a bottleneck.");
  const { seconds, busy } = stages[bottleneck];
  const facts = [busy !== null && `${formatShare(busy)} busy`, seconds !== null && `${formatSeconds(seconds)} of work queued`].filter(Boolean);
  return h("p", { class: "slowest" }, "Bottleneck: ", h("strong", {}, bottleneck), facts.length > 0 && `, ${facts.join(", ")}.`);
}

function throttles(status) {
  const all = throttlesOf(status);
  if (!Object.keys(status.stages).length) return "";
  if (!all.length) return h("p", {}, status.mode === "off" ? "No stage is throttled: back-pressure is off, and stages are only measured." : "No stage is throttled.");
  return h("ul", { class: "throttles" }, all.map((each) => h("li", {},
    h("strong", {}, each.downstream), " throttles ", h("strong", {}, each.upstream),
    ` to ${limitOf(each)} since `, timeElement(each.since), `: ${each.reason}`)));
}

function figures(status) {
  const number = (title, cell) => ({ title, number: true, cell: ([, stage]) => cell(stage) });
  return h("details", {}, h("summary", {}, "As a table"), table("Queues and rates", [
    { title: "stage", cell: ([name]) => (name === status.bottleneck ? `${name} (bottleneck)` : name) },
    { title: "load", cell: ([, stage]) => healthBadge(stage.state) },
    number("busy", (stage) => (stage.busy === null ? "" : formatShare(stage.busy))),
    number("arriving", (stage) => formatRate(stage.arriving)), number("processed", (stage) => formatRate(stage.applied)),
    number("capacity", (stage) => formatRate(stage.capacity)), number("admission limit", (stage) => formatRate(stage.rate)),
    number("queue", (stage) => formatBytes(stage.queue)), number("not admitted", (stage) => formatBytes(stage.not_admitted)),
    number("time to drain", (stage) => (stage.seconds === null ? "" : formatSeconds(stage.seconds))),
  ], Object.entries(status.stages), ([name]) => name));
}
