// The board: cards of templates in layers, edges between them, panning and zooming.

import { query } from "./api.js";
import { h, s, visible } from "./elements.js";
import { formatAge, formatBytes, formatCount, formatNumber } from "./format.js";
import { neighbourOf, shortened } from "./graph_labels.js";
import { healthBadge } from "./health.js";
import { STATE_OF, columnAt, describeStates, strip } from "./lineage_strip.js";
import { makeViewport } from "./lineage_viewport.js";
import { arranged } from "./lineage_layout.js";
import { lineOf } from "./routing.js";
import { badge } from "./states.js";

const WIDTH = 188; // of a card
const HEIGHT = 92;
const STRIP = WIDTH - 22;
const HEAD = 8; // length of an arrow's head
const SIZES = { width: WIDTH, across: WIDTH + 36, half: { node: HEIGHT / 2, lane: 4 } };

/**
 * A board; `select(key, column)` is called when a person chooses a card or a column of its strip, `expand(key)` for a
 * group. The returned object has `element`, `show`, `mark`, `choose`, `dim`, `light`, `zoom`, `focus` and `reveal`.
 */
export function makeBoard({ select, expand }) {
  const edgePath = s("path", { class: "edge" }); // all edges: one element is moved more quickly than hundreds
  const headPath = s("path", { class: "head" });
  const chainPath = s("path", { class: "edge chain" });
  const edgeLayer = s("svg", { "aria-hidden": "true" }, edgePath, headPath, chainPath);
  const cardLayer = h("div", { class: "templates" });
  const world = h("div", { class: "world" }, edgeLayer, cardLayer);
  const element = h("div", { class: "board", tabindex: -1, role: "group", "aria-label": "Lineage, sources on the left" }, world);
  const cards = new Map(); // key -> {node, text, element, strip, state}
  let picture = { nodes: [], edges: [], partitions: [] };
  let corner = new Map(); // of each card
  let marked = -1; // the selected column
  let chain = null; // the lit keys
  let lines = [];
  let positions = []; // of the nodes, as the arrow keys follow them
  let outline = ""; // of the layout that is drawn
  const viewport = makeViewport(element, world);

  function show(answer) {
    picture = { ...answer, nodes: [...answer.nodes, ...answer.streams] };
    const keys = new Set(picture.nodes.map((node) => node.key));
    for (const [key, card] of cards) {
      if (keys.has(key)) continue;
      card.element.remove();
      cards.delete(key);
    }
    const fresh = picture.nodes.filter((node) => update(node));
    const shape = JSON.stringify([picture.nodes.map((node) => [node.key, node.layer, node.place]), picture.edges]);
    if (shape !== outline) place();
    outline = shape;
    for (const node of fresh) paint(cards.get(node.key));
    roam();
    light(chain);
  }

  /** Make or renew the card of a node; whether it has changed. */
  function update(node) {
    const text = JSON.stringify([node, picture.partitions.length]);
    const before = cards.get(node.key);
    if (before?.text === text) {
      before.node = node;
      return false;
    }
    if (node.health) return renew(node, text, before, streamCard(node, (event) => move(node, event)));
    const days = h("div", { class: "days-of" });
    const state = h("p", { class: "state-line" });
    const card = h("div", {
      class: `template${node.is_group ? " group" : ""}`, "data-key": node.key, role: "button", tabindex: -1, title: node.label,
      "aria-label": describe(node), onclick: (event) => click(node, event), onkeydown: (event) => move(node, event),
    }, h("p", { class: "label" }, h("bdi", {}, shortened(node.label, 25))),
    h("p", { class: "about" }, about(node)), days, state);
    days.addEventListener("mousemove", (event) => {
      const i = columnOf(node, event);
      days.title = i < 0 ? "" : `${picture.partitions[i]}: ${STATE_OF[node.strip[i]] || "none"}`;
    });
    return renew(node, text, before, { element: card, days, state });
  }

  /** Put the new card of a node into the place of the one before. */
  function renew(node, text, before, parts) {
    const card = parts.element;
    if (before) {
      const focused = document.activeElement === before.element;
      card.style.transform = before.element.style.transform;
      before.element.replaceWith(card);
      if (focused) card.focus({ preventScroll: true });
    } else cardLayer.append(card);
    cards.set(node.key, { node, text, ...parts });
    return true;
  }

  function click(node, event) {
    const i = event.target.closest(".days-of") ? columnOf(node, event) : -1;
    if (node.is_group && i < 0) expand(node.key);
    else select(node.key, i < 0 ? marked : i);
  }

  function move(node, event) {
    if (event.key === "Enter" || event.key === " ") {
      if (node.health) return; // a link
      event.preventDefault();
      if (node.is_group) expand(node.key);
      else select(node.key, marked);
      return;
    }
    const next = neighbourOf(positions.find((each) => each.key === node.key), positions, event.key);
    if (!next) return;
    event.preventDefault();
    focus(next.key);
  }

  /** Place all cards, and draw the edges between them. */
  function place() {
    const { nodes, corners, lines: routes, width, height } = arranged(picture.nodes, picture.edges, SIZES);
    positions = nodes;
    for (const node of picture.nodes) {
      const { x, y } = corners.get(node.key);
      cards.get(node.key).element.style.transform = `translate(${x}px, ${y}px)`;
    }
    lines = picture.edges.map((edge, i) => [edge, lineOf(routes[i])]);
    edgePath.setAttribute("d", lines.map(([, line]) => line).join(" "));
    headPath.setAttribute("d", routes.map((points) => headAt(points.at(-1))).join(" "));
    edgeLayer.setAttribute("width", width);
    edgeLayer.setAttribute("height", height);
    corner = corners;
    viewport.resize(width, height);
  }

  function paint(card) {
    if (!card.days) return; // of a stream
    card.days.replaceChildren(strip(card.node.strip, STRIP, marked));
    const state = marked >= 0 ? STATE_OF[card.node.strip[marked]] : newestState(card.node);
    card.state.replaceChildren(...stateLine(card.node, state).map(visible));
    card.element.dataset.state = state;
  }

  /** Mark a column in all strips; -1: none. */
  function mark(column) {
    if (column === marked) return;
    marked = column;
    for (const card of cards.values()) paint(card);
  }

  function stateLine(node, state) {
    if (marked >= 0) return state && state !== "missing" ? [badge(state)] : [state ? "missing" : "none"];
    return [state ? badge(state) : "", h("span", { class: node.irrecoverable_bytes || node.states.irrecoverable ? "risk gone" : "risk" }, risk(node))];
  }

  /** Light these keys and the edges between them; null: none. */
  function light(keys) {
    chain = keys;
    element.classList.toggle("lit", Boolean(keys));
    for (const [key, card] of cards) card.element.classList.toggle("chain", Boolean(keys?.has(key)));
    const lit = lines.filter(([edge]) => keys?.has(edge.source) && keys.has(edge.target));
    chainPath.setAttribute("d", lit.map(([, line]) => line).join(" "));
  }

  /** Frame the card of `key`; empty: none. */
  function choose(key) {
    for (const [each, card] of cards) card.element.classList.toggle("selected", each === key);
  }

  /** Dim the cards of the nodes that `fits` refuses. */
  function dim(fits) {
    for (const card of cards.values()) card.element.classList.toggle("dimmed", !fits(card.node));
  }

  /** Focus a card and bring it into view. */
  function focus(key) {
    const card = cards.get(key);
    if (!card) return;
    roam(key);
    card.element.focus({ preventScroll: true });
    reveal(key);
  }

  function reveal(key) {
    if (corner.has(key)) viewport.reveal({ ...corner.get(key), width: WIDTH, height: HEIGHT });
  }

  /** Exactly one card can be reached by Tab; the arrow keys lead to the others. */
  function roam(key = [...cards].find(([, card]) => card.element.tabIndex === 0)?.[0] ?? picture.nodes[0]?.key) {
    for (const [each, card] of cards) card.element.tabIndex = each === key ? 0 : -1;
  }

  return { element, show, mark, choose, dim, light, zoom: viewport.zoom, focus, reveal };
}

/** The card of a stream job, which leads to the job's page. */
function streamCard(node, onkeydown) {
  const topics = `${node.reads.join(", ")} → ${node.results.join(", ")}`;
  const lag = node.lag ? `${formatNumber(node.lag)} behind` : "";
  const element = h("a", {
    class: "template stream", href: `streams${query({ job: node.label })}`, "data-key": node.key, tabindex: -1, title: topics, onkeydown,
    "aria-label": visible(`stream job ${node.label}, ${node.health}: ${node.health_reason}; ${topics}`),
  }, h("p", { class: "label" }, h("bdi", {}, shortened(node.label, 25))),
  h("p", { class: "about" }, `stream · ${formatBytes(node.state_bytes)} of state`), h("p", { class: "about" }, h("bdi", {}, topics)),
  h("p", { class: "state-line" }, healthBadge(node.health), h("span", { class: "risk" }, lag)));
  return { element };
}

/** The index of the column of a card's strip below the pointer, whatever the scale is. */
function columnOf(node, event) {
  const box = event.currentTarget.querySelector(".strip").getBoundingClientRect();
  return columnAt(node.strip, STRIP, ((event.clientX - box.left) * STRIP) / box.width);
}

/** The head of an arrow whose point is here. */
function headAt({ x, y }) {
  return `M${x - HEAD} ${y - HEAD / 2} L${x} ${y} L${x - HEAD} ${y + HEAD / 2} Z`;
}

/** The state of the youngest generation. */
export function newestState(node) {
  return node.undated ? STATE_OF[node.undated] : node.newest?.status ?? "";
}

function about(node) {
  const newest = node.newest ? `${formatBytes(node.newest.bytes)}, ${formatAge(node.newest.timestamp)}` : "";
  return node.is_group ? `${formatCount(node.templates, "template")} · ${newest}` : [node.operation, newest].filter(Boolean).join(" · ");
}

/** What of a template is gone or would be, in few words. */
export function risk(node) {
  const { lost = 0, irrecoverable = 0 } = node.states;
  if (irrecoverable) return `${irrecoverable} irrecoverable`;
  if (lost) return `${lost} lost`;
  return node.exposed_bytes ? `${formatBytes(node.exposed_bytes)} at risk` : "";
}

function describe(node) {
  return [
    node.label, node.is_group ? `group of ${formatCount(node.templates, "template")}` : "", node.operation && `operation ${node.operation}`,
    describeStates(node.states), risk(node), node.irrecoverable_bytes && `${formatBytes(node.irrecoverable_bytes)} of it irrecoverable`, node.stale ? `${node.stale} made from a superseded generation` : "",
    node.pinned ? `${node.pinned} pinned` : "", node.checkpoints ? formatCount(node.checkpoints, "checkpoint") : "",
  ].filter(Boolean).map(visible).join(", ");
}
