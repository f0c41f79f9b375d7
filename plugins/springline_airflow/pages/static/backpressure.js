// Back-pressure: the stages as boxes from source to results, how full each is, and which stage throttles which.

import { jobUrl, put } from "./api.js";
import { h, s, table, write } from "./elements.js";
import { keyOf, topologyOf } from "./topology.js";
import { healthBadge } from "./health.js";
import { liveSection } from "./live_section.js";
import { shortened } from "./graph_labels.js";
import { lineOf, routed } from "./routing.js";
import { formatBytes, formatRate, formatSeconds, formatTime } from "./format.js";

const FULL = 2; // seconds of a stage's work at which its bar is full
const WIDTH = 200; // of a box
const HALF = 48; // of the height of a stage's
const TOPIC = 36; // the height of a topic's
const ACROSS = 256; // from box to box
const INSIDE = 12; // from the edge of a box to its text
const BAR = WIDTH - 2 * INSIDE;
const SIZES = { width: WIDTH, across: ACROSS, half: { node: HALF, topic: TOPIC / 2, lane: 4 } };

/** The section of a job's page; a user who may change the job can select another mode. */
export function backpressureSection(job, mayChange) {
  const place = jobUrl(job, "backpressure");
  const errorLine = h("p", { class: "wrong", role: "status" });
  const mode = h("select", { disabled: !mayChange, onchange: choose });
  const head = h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Mode", mode), errorLine);

  async function choose() {
    write(errorLine, "");
    try {
      await put(place, { mode: mode.value });
    } catch (error) {
      write(errorLine, error.message);
    }
    refresh();
  }

  const { part, refresh } = liveSection("Back-pressure", () => place, (status) => {
    if (!mode.options.length) mode.append(...status.modes.map((name) => modeOption(name, status.baselines)));
    if (document.activeElement !== mode) mode.value = status.mode;
    return [picture(status), throttles(status), Object.keys(status.stages).length ? figures(status) : ""];
  }, { head });
  return part;
}

function modeOption(name, baselines) {
  return h("option", { value: name }, baselines.includes(name) ? `${name} (baseline, for comparison)` : name);
}

function picture(status) {
  const { nodes, edges } = topologyOf(status);
  const { corners, lines, width, height } = routed(nodes, edges, SIZES);
  const throttledEdges = new Set(throttlesOf(status).map((each) => `${keyOf(each.upstream)}>${keyOf(each.downstream)}`));
  const words = Object.entries(status.stages).map(([name, stage]) => `${name} is ${stage.state}, ${waits(stage)}`).join("; ");
  return h("div", { class: "scroll flow", tabindex: 0, role: "region", "aria-label": "Stages and their queues" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words || "No data yet" },
      s("defs", {}, tip("head"), tip("stop")),
      edges.map(({ source, target }, i) => {
        const stops = throttledEdges.has(`${source}>${target}`);
        return s("path", { d: lineOf(lines[i]), class: stops ? "edge held" : "edge", "marker-end": `url(#${stops ? "stop" : "head"})` });
      }),
      nodes.map((node) => s("g", { class: "node", transform: `translate(${corners.get(node.key).x} ${corners.get(node.key).y})` },
        node.kind === "topic" ? topicBox(node.name) : stageBox(node.name, status.stages[node.name])))));
}

function tip(kind) {
  return s("marker", { id: kind, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
    s("path", { d: "M0 0 L8 4 L0 8 Z", class: kind }));
}

function topicBox(topic) {
  return [s("title", {}, `the topic ${topic}`), s("rect", { y: HALF - TOPIC / 2, width: WIDTH, height: TOPIC, rx: TOPIC / 2, class: "box topic" }),
    s("text", { x: WIDTH / 2, y: HALF + 4, class: "middle" }, shortened(topic))];
}

function stageBox(stage, pressed) {
  const text = (line, words, className) => s("text", { x: INSIDE, y: line, class: className }, words);
  return [
    s("rect", { width: WIDTH, height: 2 * HALF, rx: 6, class: `box ${pressed?.state ?? ""}` }), text(24, shortened(stage)),
    pressed ? [
      s("text", { x: WIDTH - INSIDE, y: 24, class: `small end said ${pressed.state}` }, pressed.state),
      s("rect", { x: INSIDE, y: 35, width: BAR, height: 8, rx: 4, class: "trough" }),
      s("rect", { x: INSIDE, y: 35, width: BAR * Math.min(1, (pressed.seconds ?? 0) / FULL), height: 8, rx: 4, class: `part ${pressed.state}` }),
      text(62, waits(pressed), "small"), text(82, rates(pressed), "small"),
    ] : text(48, "No data yet", "small"),
  ];
}

function waits({ queue, seconds }) {
  return `${formatBytes(queue)} queued${seconds === null ? "" : `, ${formatSeconds(seconds)}`}`;
}

function rates({ applied, rate }) {
  return `${formatRate(applied)}${rate === null ? "" : `, limit ${formatRate(rate)}`}`;
}

/** All throttles of a job. */
function throttlesOf(status) {
  return Object.values(status.stages).flatMap((stage) => stage.throttles);
}

function throttles(status) {
  const throttleList = throttlesOf(status);
  if (!throttleList.length) return h("p", {}, status.mode === "off" ? "No stage is throttled: back-pressure is off, and stages are only measured." : "No stage is throttled.");
  return h("ul", { class: "throttles" }, throttleList.map((each) => h("li", {},
    h("strong", {}, each.downstream), " throttles ", h("strong", {}, each.upstream),
    ` to ${each.rate === null ? `level ${each.throttle_level}` : formatRate(each.rate)} since ${formatTime(each.since)}: ${each.reason}`)));
}

function figures(status) {
  const number = (title, cell) => ({ title, number: true, cell: ([, stage]) => cell(stage) });
  return h("details", {}, h("summary", {}, "As a table"), table("Queues and rates", [
    { title: "stage", cell: ([name]) => name }, { title: "state", cell: ([, stage]) => healthBadge(stage.state) },
    number("queue", (stage) => formatBytes(stage.queue)), number("not admitted", (stage) => formatBytes(stage.not_admitted)),
    number("time to drain", (stage) => (stage.seconds === null ? "" : formatSeconds(stage.seconds))),
    number("admission limit", (stage) => formatRate(stage.rate)), number("capacity", (stage) => formatRate(stage.capacity)),
    number("arriving", (stage) => formatRate(stage.arriving)), number("applied", (stage) => formatRate(stage.applied)),
  ], Object.entries(status.stages), ([name]) => name));
}
