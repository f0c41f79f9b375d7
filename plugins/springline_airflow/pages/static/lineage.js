// The lineage: datasets and operations in layers, and the steps that would recover each dataset.

import { query } from "./api.js";
import { h, s, table, write } from "./elements.js";
import { queryValue, frame, poll, showStatus } from "./shell.js";
import { neighbourOf, chainOf, fits, describeChain, shortened } from "./graph_labels.js";
import { HEIGHT, WIDTH, lineOf, routed } from "./routing.js";
import { formatCount, formatBytes } from "./format.js";
import { morph } from "./morph.js";
import { STATES, badge, shapeOf, worst } from "./states.js";

const LEAST_READABLE = 0.85; // of the size of letters
const MOST = 2000; // datasets, the newest
const view = { text: "", states: new Set(), scale: 0, list: false }; // scale 0: as wide as the page, if readable
let picture = { nodes: [], edges: [], fold: "none", is_complete: true };
let byKey = new Map();
let drawn = new Map(); // key -> element
let lines = []; // [edge, element]
let lit = ""; // the key of the node whose chain is shown

const field = (name, title) => {
  const input = h("input", { name, value: queryValue(name), type: "search", autocomplete: "off", spellcheck: "false" });
  input.addEventListener("change", reload);
  return [h("label", {}, title, input), input];
};
const [dagLabel, dagInput] = field("dag_id", "DAG");
const [runLabel, runInput] = field("run_id", "DAG run");
const [taskLabel, taskInput] = field("task_id", "Task");
const [prefixLabel, prefixInput] = field("prefix", "Path prefix");
const foldInput = h("select", { name: "fold", onchange: reload },
  [["", "Auto"], ["none", "None"], ["operation", "Operation"], ["run", "DAG run"]].map(([value, title]) =>
    h("option", { value, selected: value === queryValue("fold") }, title)));
const search = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: (event) => {
  view.text = event.target.value;
  dim();
}, onkeydown: (event) => event.key === "Enter" && firstFit()?.focus() });
const states = STATES.map((state) => h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (event) => {
  view.states[event.target.checked ? "add" : "delete"](state);
  dim();
} }), badge(state)));
const canvas = h("div", { class: "canvas scroll" });
const chainLine = h("p", { id: "recovery", class: "recovery", "aria-live": "polite" });
const count = h("p", { class: "count" });

function values() {
  return { dag_id: dagInput.value, run_id: runInput.value, task_id: taskInput.value, prefix: prefixInput.value,
    fold: foldInput.value };
}

function reload() {
  history.replaceState(null, "", `lineage${query(values())}`);
  refresh();
}

function linkOf(node) {
  if (node.kind === "dataset") return `dataset${query({ path: node.key })}`;
  return `lineage${query({ dag_id: node.dag_id, run_id: node.run_id, task_id: node.task_id, fold: "none" })}`;
}

function titleOf(node) {
  if (node.kind === "fold") return node.label || (picture.fold === "run" ? "no DAG run" : "no operation");
  return node.label;
}

function wordsOf(node) {
  const inside = Object.entries(node.states).map(([state, number]) => node.datasets > 1 ? `${number} ${state}` : state);
  const ways = Object.entries(node.methods).map(([way, number]) =>
    node.datasets > 1 ? `${number} persisted as ${way}` : `persisted as ${way}`);
  return [
    titleOf(node), node.kind === "operation" ? "operation" : "", ...inside, ...ways,
    node.datasets ? formatBytes(node.bytes) : "",
    node.datasets > 1 ? formatCount(node.datasets, "dataset") : "",
    node.checkpoints ? (node.datasets > 1 ? formatCount(node.checkpoints, "checkpoint") : "checkpoint") : "",
    node.pinned ? "pinned" : "", node.stale ? "stale: made from a superseded generation" : "",
    node.older.length ? formatCount(node.older.length, "older generation") : "",
  ].filter(Boolean).join(", ");
}

function marksOf(node) {
  const ways = Object.keys(node.methods).map((way) => way === "operation" ? "ƒ" : "≡").join("");
  const marks = [ways, node.checkpoints && "◆", node.pinned && "pin", node.stale && "stale",
    node.older.length && `+${node.older.length} older`];
  return marks.filter(Boolean).join("  ");
}

function drawNode(node, corner) {
  const inside = [s("title", {}, wordsOf(node))];
  if (node.kind === "operation") {
    inside.push(s("rect", { width: WIDTH, height: HEIGHT - 16, y: 8, rx: 15, class: "box" }),
      s("text", { x: WIDTH / 2, y: HEIGHT / 2 + 4, class: "middle" }, shortened(node.label)));
    return s("g", { transform: `translate(${corner.x} ${corner.y})`, class: "node operation" }, inside);
  }
  const state = worst(node.states);
  if (node.kind === "fold" || node.older.length) {
    inside.push(s("rect", { x: 5, y: -4, width: WIDTH, height: HEIGHT, rx: 4, class: "box behind" }));
  }
  const detail = node.datasets > 1 ? `${formatCount(node.datasets, "dataset")}, ${formatBytes(node.bytes)}`
    : `${state}, ${formatBytes(node.bytes)}`;
  inside.push(
    s("rect", { width: WIDTH, height: HEIGHT, rx: 4, class: `box ${state} ${node.stale ? "stale" : ""}` }),
    s("g", { transform: "translate(8 6)" }, shapeOf(state)),
    s("text", { x: 32, y: 19 }, shortened(titleOf(node))),
    s("text", { x: 32, y: 37, class: "small" }, detail),
    s("text", { x: WIDTH - 8, y: 37, class: "small end" }, marksOf(node)),
  );
  if (node.datasets > 1) inside.push(...shares(node));
  return s("a", {
    href: linkOf(node), transform: `translate(${corner.x} ${corner.y})`, class: "node", "aria-label": wordsOf(node),
    onfocus: () => light(node), onblur: unlight, onmouseenter: () => light(node), onmouseleave: unlight,
    onkeydown: (event) => {
      const focusable = picture.nodes.filter((other) => other.kind !== "operation");
      const next = neighbourOf(node, focusable, event.key);
      if (!next) return;
      event.preventDefault();
      drawn.get(next.key).focus();
    },
  }, inside);
}

/** How many of a fold are in which state, as a bar. */
function shares(node) {
  let x = 8;
  return STATES.filter((state) => node.states[state]).map((state) => {
    const width = ((WIDTH - 16) * node.states[state]) / node.datasets;
    x += width;
    return s("rect", { x: x - width, y: HEIGHT - 6, width, height: 3, class: `part ${state}` });
  });
}

function draw() {
  const focused = [...drawn].find(([, element]) => element === document.activeElement)?.[0];
  const { corners, lines: routes, width, height } = routed(picture.nodes, picture.edges);
  lines = picture.edges.map((edge, i) => [edge, s("path", {
    d: lineOf(routes[i]), class: `edge ${edge.stale ? "stale" : ""}`, "marker-end": "url(#head)",
  })]);
  drawn = new Map(picture.nodes.map((node) => [node.key, drawNode(node, corners.get(node.key))]));
  const head = s("defs", {}, s("marker", { id: "head", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7,
    markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0 L8 4 L0 8 Z", class: "head" })));
  canvas.replaceChildren(s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": "Lineage, sources on the left" }, head, lines.map(([, element]) => element), [...drawn.values()]));
  size();
  drawn.get(focused)?.focus();
  if (byKey.has(lit)) light(byKey.get(lit));
  else unlight();
}

function scale(box) {
  return view.scale || Math.max(LEAST_READABLE, Math.min(1, canvas.clientWidth / box.width));
}

function size() {
  const image = canvas.querySelector("svg");
  if (!image) return;
  const box = image.viewBox.baseVal;
  image.setAttribute("width", box.width * scale(box));
  image.setAttribute("height", box.height * scale(box));
}

function list() {
  const rows = picture.nodes.filter((node) => node.kind !== "operation" && fits(node, view.text, view.states));
  morph(canvas, table("Lineage", [
    { title: "dataset", wide: true, cell: (node) => h("a", { href: linkOf(node) }, titleOf(node)) },
    { title: "state", cell: (node) => Object.entries(node.states).map(([state, number]) =>
      [badge(state), node.datasets > 1 ? ` ${number} ` : ""]) },
    { title: "size", number: true, cell: (node) => formatBytes(node.bytes) },
    { title: "operation", cell: (node) => node.operation },
    { title: "DAG run", cell: (node) => node.run_id },
    { title: "if the cache were lost", cell: (node) => describeChain(node, byKey) },
  ], rows, (node) => node.key));
}

function light(node) {
  unlight();
  lit = node.key;
  const isRecomputable = node.recovery_kinds.recomputable || node.recovery_kinds.unproven;
  const chain = new Set(isRecomputable ? chainOf(node.key, byKey) : [node.key]);
  for (const key of [...chain]) if (drawn.has(`operation:${key}`)) chain.add(`operation:${key}`);
  canvas.classList.add("lit");
  for (const key of chain) drawn.get(key)?.classList.add("chain");
  for (const [edge, element] of lines) {
    element.classList.toggle("chain", chain.has(edge.source) && chain.has(edge.target));
  }
  write(chainLine, `${titleOf(node)}: ${describeChain(node, byKey)}`);
}

function unlight() {
  lit = "";
  canvas.classList.remove("lit");
  for (const element of canvas.querySelectorAll(".chain")) element.classList.remove("chain");
}

function dim() {
  if (view.list) list();
  let fitting = 0;
  for (const node of picture.nodes) {
    const here = fits(node, view.text, view.states);
    fitting += here && node.kind !== "operation";
    drawn.get(node.key)?.classList.toggle("dimmed", !here);
  }
  const what = picture.fold === "none" ? "dataset" : "fold";
  const rest = picture.is_complete ? "" : "; only the newest are drawn: filter by DAG, DAG run or path to see others";
  write(count, `${formatCount(fitting, what)}${rest}`);
}

function firstFit() {
  const node = picture.nodes.find((each) => each.kind !== "operation" && fits(each, view.text, view.states));
  return node && drawn.get(node.key);
}

function zoom(by) {
  const box = canvas.querySelector("svg")?.viewBox.baseVal;
  if (!box) return;
  const fitScale = Math.min(1, canvas.clientWidth / box.width, canvas.clientHeight / box.height);
  view.scale = by ? Math.min(3, Math.max(0.05, scale(box) * by)) : fitScale;
  size();
}

function nothing() {
  return Object.values(values()).some(Boolean) ? "No dataset that you may read matches the filter."
    : "There are no datasets that you may read. They appear here while a DAG run creates them.";
}

function show(answer) {
  picture = answer;
  byKey = new Map(picture.nodes.map((node) => [node.key, node]));
  if (view.list) {
    drawn = new Map();
    lines = [];
  } else draw();
  dim();
  if (!picture.nodes.length) canvas.replaceChildren(h("p", { class: "empty" }, nothing()));
}

const button = (title, label, onclick) => h("button", { type: "button", "aria-label": label, title: label, onclick }, title);
frame("lineage");
document.getElementById("main").append(
  h("form", { class: "asked", onsubmit: (event) => event.preventDefault() },
    h("label", {}, "Search", search), dagLabel, runLabel, taskLabel, prefixLabel, h("label", {}, "Group by", foldInput),
    h("fieldset", {}, h("legend", {}, "States"), states),
    h("span", { class: "buttons" },
      button("+", "Zoom in", () => zoom(1.25)), button("−", "Zoom out", () => zoom(0.8)), button("⤢", "Fit", () => zoom(0)),
      h("button", { type: "button", "aria-pressed": "false", onclick: (event) => {
        view.list = !view.list;
        event.currentTarget.setAttribute("aria-pressed", String(view.list));
        show(picture);
      } }, "As a table"))),
  count, canvas, chainLine,
  h("p", { class: "legend" }, "≡ persisted as data, ƒ persisted as its operation, ◆ checkpoint, pin: pinned. ",
    "Use the arrow keys to move between datasets."));
addEventListener("resize", size);
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.1 : 0.9);
}, { passive: false });
showStatus("loading …");
const refresh = poll(() => `lineage${query({ ...values(), limit: MOST })}`, show);
