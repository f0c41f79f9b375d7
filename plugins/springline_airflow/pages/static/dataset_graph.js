// The lineage around one generation: what made it and what depends on it, in words and as a picture.

import { h, s } from "./elements.js";
import { formatBytes, formatCount } from "./format.js";
import { neighbourOf, shortened } from "./graph_labels.js";
import { lineOf, routed } from "./routing.js";
import { shapeOf } from "./states.js";
import { datasetList, nameOf, pageOf } from "./dataset_links.js";

const WIDTH = 192; // of a box
const HEIGHT = 46;
const SIZES = { width: WIDTH, across: 240, half: { node: HEIGHT / 2, lane: 4 } };
const LEAST_READABLE = 0.85; // of the size of letters

/** What made a generation and what depends on it, in two sentences. */
export function relations({ operation, sources, tables, dependents, hidden }) {
  const from = [...(sources.length ? [datasetList(sources)] : []), ...tables.map((table) => h("code", {}, table))];
  const made = operation ? ["Made by ", h("strong", {}, operation)] : ["No operation is recorded that made it"];
  return [
    h("p", { class: "made" }, made, from.map((each, i) => [i ? ", " : " from ", each]), "."),
    h("p", { class: "dependents" }, dependents.length ? [`${dependents.length === 1 ? "1 dataset depends" : `${dependents.length.toLocaleString("en")} datasets depend`} on it: `, datasetList(dependents)] : "No dataset depends on it", "."),
    hidden ? h("p", { class: "note" }, `${formatCount(hidden, "more source or dependent")} of DAGs that you may not read.`) : "",
  ];
}

/** The picture of the neighbourhood, and what it leaves out. */
export function picture(answer) {
  const here = nameOf(answer);
  if (answer.nodes.length < 2) return [];
  const { corners, lines, width, height } = routed(answer.nodes, answer.edges, SIZES);
  const drawn = new Map();
  for (const node of answer.nodes) drawn.set(node.key, drawNode(node, corners.get(node.key), node.key === here, answer.nodes, drawn));
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Lineage, sources on the left" },
    s("defs", {}, s("marker", { id: "head", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      s("path", { d: "M0 0 L8 4 L0 8 Z", class: "head" }))),
    answer.edges.map((edge, i) => s("path", { d: lineOf(lines[i]), class: edge.stale ? "edge stale" : "edge", "marker-end": "url(#head)" })),
    [...drawn.values()]);
  svg.style.minWidth = `${width * LEAST_READABLE}px`;
  return [h("div", { class: "scroll neighbours", tabindex: 0, role: "region", "aria-label": "Lineage up to two steps away" }, svg),
    h("p", { class: "note" }, leftOut(answer).join(" "))];
}

function leftOut(answer) {
  const more = [[answer.more_sources, "more source"], [answer.more_dependents, "more dependent"]].filter(([count]) => count);
  const stale = answer.edges.some((edge) => edge.stale) && "A dashed line starts at a superseded generation.";
  return [more.length && `Not drawn: ${more.map(([count, what]) => formatCount(count, what)).join(" and ")}.`, stale].filter(Boolean);
}

function wordsOf(node, isHere) {
  return [node.key, isHere && "this one", node.status, formatBytes(node.bytes), node.operation && `made by ${node.operation}`,
    node.dag_id && `DAG ${node.dag_id}`].filter(Boolean).join(", ");
}

function drawNode(node, corner, isHere, nodes, drawn) {
  return s("a", {
    href: pageOf(node), transform: `translate(${corner.x} ${corner.y})`, class: isHere ? "node here" : "node",
    "aria-label": wordsOf(node, isHere), "aria-current": isHere && "true", "data-node": node.key,
    onkeydown: (event) => {
      const next = neighbourOf(node, nodes, event.key);
      if (!next) return;
      event.preventDefault();
      drawn.get(next.key).focus();
    },
  },
  s("title", {}, wordsOf(node, isHere)), s("rect", { width: WIDTH, height: HEIGHT, rx: 4, class: `box ${node.status}` }),
  s("g", { transform: "translate(8 6)" }, shapeOf(node.status)),
  s("text", { x: 31, y: 19 }, shortened(node.key, isHere ? 18 : 20)),
  s("text", { x: 31, y: 37, class: "small" }, shortened([node.operation, formatBytes(node.bytes)].filter(Boolean).join(" · "), 25)));
}
