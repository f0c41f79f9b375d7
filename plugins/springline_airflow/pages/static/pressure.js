// Back-pressure: the stages as boxes from what is read to the results, how full each is, and who throttles whom.

import { jobPlace, put } from "./asking.js";
import { h, s, table, write } from "./elements.js";
import { keyOf, wayThrough } from "./flow.js";
import { healthBadge } from "./health.js";
import { livePart } from "./parts.js";
import { shortened } from "./picture.js";
import { lineOf, routed } from "./routing.js";
import { sayBytes, sayRate, saySeconds, sayTime } from "./saying.js";

const FULL = 2; // seconds of a stage's work at which its bar is full
const WIDTH = 200; // of a box
const HALF = 48; // of the height of a stage's
const TOPIC = 36; // the height of a topic's
const ACROSS = 256; // from box to box
const INSIDE = 12; // from the edge of a box to its text
const BAR = WIDTH - 2 * INSIDE;
const SIZES = { width: WIDTH, across: ACROSS, half: { node: HALF, topic: TOPIC / 2, lane: 4 } };

/** The part of a job's page; who may change the job may choose another mode. */
export function pressurePart(job, mayChange) {
  const place = jobPlace(job, "backpressure");
  const trouble = h("p", { class: "wrong", role: "status" });
  const mode = h("select", { disabled: !mayChange, onchange: choose });
  const head = h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Mode", mode), trouble);

  async function choose() {
    write(trouble, "");
    try {
      await put(place, { mode: mode.value });
    } catch (error) {
      write(trouble, error.message);
    }
    again();
  }

  const { part, again } = livePart("Back-pressure", () => place, (told) => {
    if (!mode.options.length) mode.append(...told.modes.map((name) => modeOption(name, told.baselines)));
    if (document.activeElement !== mode) mode.value = told.mode;
    return [picture(told), throttles(told), Object.keys(told.stages).length ? figures(told) : ""];
  }, { head });
  return part;
}

function modeOption(name, baselines) {
  return h("option", { value: name }, baselines.includes(name) ? `${name} (a baseline, to compare with)` : name);
}

function picture(told) {
  const { nodes, edges } = wayThrough(told);
  const { at, lines, width, height } = routed(nodes, edges, SIZES);
  const held = new Set(every(told).map((each) => `${keyOf(each.upstream)}>${keyOf(each.downstream)}`));
  const words = Object.entries(told.stages).map(([name, stage]) => `${name} is ${stage.state}, ${waits(stage)}`).join("; ");
  return h("div", { class: "scroll flow", tabindex: 0, role: "region", "aria-label": "Stages and their queues" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words || "No stage has told anything yet" },
      s("defs", {}, tip("head"), tip("stop")),
      edges.map(({ source, target }, i) => {
        const stops = held.has(`${source}>${target}`);
        return s("path", { d: lineOf(lines[i]), class: stops ? "edge held" : "edge", "marker-end": `url(#${stops ? "stop" : "head"})` });
      }),
      nodes.map((node) => s("g", { class: "node", transform: `translate(${at.get(node.key).x} ${at.get(node.key).y})` },
        node.kind === "topic" ? topicBox(node.name) : stageBox(node.name, told.stages[node.name])))));
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
  const text = (line, words, look) => s("text", { x: INSIDE, y: line, class: look }, words);
  return [
    s("rect", { width: WIDTH, height: 2 * HALF, rx: 6, class: `box ${pressed?.state ?? ""}` }), text(24, shortened(stage)),
    pressed ? [
      s("text", { x: WIDTH - INSIDE, y: 24, class: `small end said ${pressed.state}` }, pressed.state),
      s("rect", { x: INSIDE, y: 35, width: BAR, height: 8, rx: 4, class: "trough" }),
      s("rect", { x: INSIDE, y: 35, width: BAR * Math.min(1, (pressed.seconds ?? 0) / FULL), height: 8, rx: 4, class: `part ${pressed.state}` }),
      text(62, waits(pressed), "small"), text(82, rates(pressed), "small"),
    ] : text(48, "has told nothing yet", "small"),
  ];
}

function waits({ queue, seconds }) {
  return `${sayBytes(queue)} wait${seconds === null ? "" : `, ${saySeconds(seconds)}`}`;
}

function rates({ applied, rate }) {
  return `${sayRate(applied)}${rate === null ? "" : `, may take ${sayRate(rate)}`}`;
}

/** All throttles of a job. */
function every(told) {
  return Object.values(told.stages).flatMap((stage) => stage.throttles);
}

function throttles(told) {
  const found = every(told);
  if (!found.length) return h("p", {}, told.mode === "off" ? "Nobody is throttled: stages are only measured." : "Nobody is throttled.");
  return h("ul", { class: "throttles" }, found.map((each) => h("li", {},
    h("strong", {}, each.downstream), " throttles ", h("strong", {}, each.upstream),
    ` to ${each.rate === null ? `level ${each.level}` : sayRate(each.rate)} since ${sayTime(each.since)}: ${each.why}`)));
}

function figures(told) {
  const number = (title, cell) => ({ title, number: true, cell: ([, stage]) => cell(stage) });
  return h("details", {}, h("summary", {}, "As a table"), table("Queues and rates", [
    { title: "stage", cell: ([name]) => name }, { title: "state", cell: ([, stage]) => healthBadge(stage.state) },
    number("queue", (stage) => sayBytes(stage.queue)), number("not admitted", (stage) => sayBytes(stage.waiting)),
    number("would take", (stage) => (stage.seconds === null ? "" : saySeconds(stage.seconds))),
    number("may admit", (stage) => sayRate(stage.rate)), number("can do", (stage) => sayRate(stage.capacity)),
    number("arriving", (stage) => sayRate(stage.arriving)), number("applied", (stage) => sayRate(stage.applied)),
  ], Object.entries(told.stages), ([name]) => name));
}
