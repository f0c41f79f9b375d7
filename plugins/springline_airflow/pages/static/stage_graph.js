// The graph of a job's stages: rate, queue and busy share of each, and who throttles whom, from the slow stage upstream.

import { h, s } from "./elements.js";
import { topologyOf } from "./topology.js";
import { shortened } from "./graph_labels.js";
import { lineOf, routed } from "./routing.js";
import { formatBytes, formatRate, formatSeconds, formatShare } from "./format.js";

const WIDTH = 224; // of a box
const HALF = 66; // of its height
const ACROSS = 316; // from box to box
const INSIDE = 12; // from the edge of a box to its text
const BAR = WIDTH - 2 * INSIDE;
const ABOVE = 58; // room for the arrows of throttles
const ARC = 46; // height of such an arrow
const SIZES = { width: WIDTH, across: ACROSS, half: { node: HALF, lane: 4 } };

/** The graph of the response `status`. */
export function stageGraph(status) {
  const { nodes, edges } = topologyOf(status);
  const { corners, lines, width, height } = routed(nodes, edges, SIZES);
  const throttles = throttlesOf(status);
  const above = throttles.length || status.bottleneck ? ABOVE : 0;
  const incoming = (target) => edges.filter((edge) => edge.target === target).length;
  return h("div", { class: "scroll flow", tabindex: 0, role: "region", "aria-label": "Stages and their queues" },
    s("svg", { viewBox: `0 ${-above} ${width} ${height + above}`, width, height: height + above, role: "img", "aria-label": inWords(status) },
      s("defs", {}, tip("head"), tip("stop")),
      edges.map(({ source, target }, i) => [
        s("path", { d: lineOf(lines[i]), class: "edge", "marker-end": "url(#head)" }),
        incoming(target) === 1 && status.stages[target] && s("text", { class: "flow-rate", x: (corners.get(source).x + WIDTH + corners.get(target).x) / 2, y: corners.get(target).y + HALF - 8 }, formatRate(status.stages[target].arriving)),
      ]),
      nodes.map(({ key: name }) => s("g", { class: "node", "data-stage": name, transform: `translate(${corners.get(name).x} ${corners.get(name).y})` },
        stageBox(name, status))),
      throttles.map((each) => throttleArrow(each, corners))));
}

/** All throttles of a job. */
export function throttlesOf(status) {
  return Object.values(status.stages).flatMap((stage) => stage.throttles);
}

/** To what a throttle limits its stage. */
export function limitOf({ rate, throttle_level: level }) {
  return rate === null ? `level ${level}` : formatRate(rate);
}

function inWords({ upstreams, stages, bottleneck }) {
  const parts = Object.keys(upstreams).map((name) => (stages[name]
    ? `${name} is ${stages[name].state}${name === bottleneck ? " and the bottleneck" : ""}, ${queue(stages[name])}` : `${name}: not measured yet`));
  return parts.join("; ");
}

function tip(kind) {
  return s("marker", { id: kind, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
    s("path", { d: "M0 0 L8 4 L0 8 Z", class: kind }));
}

/** The arrow of a throttle: from the slow stage back to the one that it slows down, with the rate that this may take. */
function throttleArrow(each, corners) {
  const [from, to] = [corners.get(each.downstream), corners.get(each.upstream)];
  if (!from || !to) return null;
  const [start, end] = [{ x: from.x + WIDTH / 2 - 36, y: from.y - 2 }, { x: to.x + WIDTH / 2 + 36, y: to.y - 2 }];
  const top = Math.min(start.y, end.y) - ARC;
  return [s("path", { class: "edge held", "marker-end": "url(#stop)", "data-throttle": `${each.downstream} ${each.upstream}`,
    d: `M${start.x} ${start.y} C${start.x} ${top} ${end.x} ${top} ${end.x} ${end.y}` }),
  s("text", { class: "flow-rate held", x: (start.x + end.x) / 2, y: top + 8 }, `throttles to ${limitOf(each)}`)];
}

function stageBox(name, status) {
  const stage = status.stages[name];
  const line = (y, words, className = "small") => s("text", { x: INSIDE, y, class: className }, words);
  const isSlow = name === status.bottleneck;
  const topics = [status.reads[name] && `reads ${shortened(status.reads[name], 14)}`, status.results[name] && `writes ${shortened(status.results[name], 14)}`].filter(Boolean);
  return [
    s("title", {}, [name, status.reads[name] && `reads the topic ${status.reads[name]}`, status.results[name] && `writes the topic ${status.results[name]}`].filter(Boolean).join("; ")),
    s("rect", { width: WIDTH, height: 2 * HALF, rx: 4, class: `box ${stage?.state ?? ""}${isSlow ? " slow" : ""}` }),
    line(22, shortened(name, 16), "stage-name"),
    isSlow && s("text", { x: WIDTH / 2 + 40, y: -8, class: "small said overloaded bottleneck" }, "bottleneck"),
    stage ? [
      s("text", { x: WIDTH - INSIDE, y: 22, class: `small end said ${stage.state}` }, stage.state),
      s("rect", { x: INSIDE, y: 32, width: BAR, height: 6, rx: 3, class: "trough" }),
      s("rect", { x: INSIDE, y: 32, width: BAR * (stage.busy ?? 0), height: 6, rx: 3, class: `part ${stage.state}` }),
      line(56, busy(stage)), line(74, `in ${formatRate(stage.arriving)}${stage.rate === null ? "" : `, may take ${formatRate(stage.rate)}`}`),
      line(92, queue(stage)),
    ] : line(56, "not measured yet"),
    line(2 * HALF - 12, topics.join(", "), "small topic"),
  ];
}

function busy({ busy: share, applied, capacity }) {
  return share === null ? `processes ${formatRate(applied)}` : `${formatShare(share)} busy: ${formatRate(applied)} of ${formatRate(capacity)}`;
}

function queue({ queue: bytes, seconds }) {
  return `${formatBytes(bytes)} queued${seconds === null ? "" : ` = ${formatSeconds(seconds)} of work`}`;
}
