// The board: cards of templates in layers, edges between them, panning and zooming.

import { h, s, visible } from "./elements.js";
import { formatAge, formatBytes, formatCount } from "./format.js";
import { neighbourOf, shortened } from "./graph_labels.js";
import { STATE_OF, columnAt, describeStates, drawStrip, stripColours } from "./lineage_strip.js";
import { lineOf, routed } from "./routing.js";
import { badge } from "./states.js";

const WIDTH = 216; // of a card
const HEIGHT = 92;
const STRIP = WIDTH - 22;
const SIZES = { width: WIDTH, across: WIDTH + 56, half: { node: HEIGHT / 2, lane: 4 } };
const LEAST = 0.1;
const MOST = 2;
const READABLE = 0.72; // the least scale of the first picture

/**
 * A board; `select(key, column)` is called when a person chooses a card or a column of its strip, `expand(key)` for a
 * group. The returned object has `element`, `show`, `mark`, `light`, `zoom` and `focus`.
 */
export function makeBoard({ select, expand }) {
  const edgeLayer = s("svg", { "aria-hidden": "true" });
  const cardLayer = h("div", { class: "cards" });
  const world = h("div", { class: "world" }, edgeLayer, cardLayer);
  const element = h("div", { class: "board", tabindex: -1, role: "group", "aria-label": "Lineage, sources on the left" }, world);
  const cards = new Map(); // key -> {node, text, element, strip, state}
  let picture = { nodes: [], edges: [], partitions: [] };
  let size = { width: 0, height: 0 };
  let scale = 0; // 0: not chosen yet
  let marked = -1; // the selected column
  let chain = null; // the lit keys
  let lines = [];
  let outline = ""; // of the layout that is drawn
  let colours = stripColours();

  function show(answer) {
    picture = answer;
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
    const strip = h("canvas", { class: "strip", "aria-hidden": "true" });
    const state = h("p", { class: "state-line" });
    const card = h("div", {
      class: `card${node.is_group ? " group" : ""}`, "data-key": node.key, role: "button", tabindex: -1, title: node.label,
      "aria-label": describe(node), onclick: (event) => choose(node, event), onkeydown: (event) => move(node, event),
    }, h("p", { class: "card-name" }, h("bdi", {}, shortened(node.label, 30))),
    h("p", { class: "card-about" }, about(node)), strip, state);
    strip.addEventListener("mousemove", (event) => {
      const i = columnAt(node.strip, STRIP, event.offsetX);
      strip.title = i < 0 ? "" : `${picture.partitions[i]}: ${STATE_OF[node.strip[i]] || "none"}`;
    });
    if (before) {
      const focused = document.activeElement === before.element;
      card.style.transform = before.element.style.transform;
      before.element.replaceWith(card);
      if (focused) card.focus({ preventScroll: true });
    } else cardLayer.append(card);
    cards.set(node.key, { node, text, element: card, strip, state });
    return true;
  }

  function choose(node, event) {
    const i = event.target.classList.contains("strip") ? columnAt(node.strip, STRIP, event.offsetX) : -1;
    if (node.is_group && i < 0) expand(node.key);
    else select(node.key, i < 0 ? marked : i);
  }

  function move(node, event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (node.is_group) expand(node.key);
      else select(node.key, marked);
      return;
    }
    const next = neighbourOf(node, picture.nodes, event.key);
    if (!next) return;
    event.preventDefault();
    focus(next.key);
  }

  /** Place all cards, and draw the edges between them. */
  function place() {
    const { corners, lines: routes, width, height } = routed(picture.nodes, picture.edges, SIZES);
    size = { width, height };
    for (const node of picture.nodes) {
      const { x, y } = corners.get(node.key);
      cards.get(node.key).element.style.transform = `translate(${x}px, ${y}px)`;
    }
    lines = picture.edges.map((edge, i) => [edge, s("path", { d: lineOf(routes[i]), class: "edge", "marker-end": "url(#head)" })]);
    const head = s("defs", {}, s("marker", { id: "head", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      s("path", { d: "M0 0 L8 4 L0 8 Z", class: "head" })));
    edgeLayer.setAttribute("width", width);
    edgeLayer.setAttribute("height", height);
    edgeLayer.replaceChildren(head, ...lines.map(([, line]) => line));
    rescale(scale || fitWidth());
  }

  function fitWidth() {
    return Math.max(READABLE, Math.min(1, element.clientWidth / Math.max(size.width, 1)));
  }

  /** Show the world at a scale; the point at `x`, `y` of the board stays where it is. */
  function rescale(next, x = 0, y = 0) {
    const before = scale || next;
    const [left, top] = [(element.scrollLeft + x) / before, (element.scrollTop + y) / before];
    scale = Math.min(MOST, Math.max(LEAST, next));
    cardLayer.style.transform = edgeLayer.style.transform = `scale(${scale})`;
    world.style.width = `${Math.ceil(size.width * scale)}px`;
    world.style.height = `${Math.ceil(size.height * scale)}px`;
    element.scrollLeft = left * scale - x;
    element.scrollTop = top * scale - y;
  }

  function zoom(by) {
    if (by) rescale(scale * by, element.clientWidth / 2, element.clientHeight / 2);
    else rescale(Math.min(1, element.clientWidth / size.width, element.clientHeight / size.height));
  }

  function paint(card) {
    drawStrip(card.strip, card.node.strip, STRIP, colours, marked);
    const state = marked >= 0 ? STATE_OF[card.node.strip[marked]] : newestState(card.node);
    card.state.replaceChildren(...stateLine(card.node, state).map(visible));
    card.element.dataset.state = state;
  }

  /** Mark a column in all strips; -1: none. */
  function mark(column) {
    marked = column;
    for (const card of cards.values()) paint(card);
  }

  function stateLine(node, state) {
    if (marked >= 0) return state && state !== "missing" ? [badge(state)] : [state ? "missing" : "none"];
    return [state ? badge(state) : "", h("span", { class: "risk" }, risk(node))];
  }

  /** Light these keys and the edges between them; null: none. */
  function light(keys) {
    chain = keys;
    element.classList.toggle("lit", Boolean(keys));
    for (const [key, card] of cards) card.element.classList.toggle("chain", Boolean(keys?.has(key)));
    for (const [edge, line] of lines) line.classList.toggle("chain", Boolean(keys?.has(edge.source) && keys.has(edge.target)));
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
    cards.get(key)?.element.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Exactly one card can be reached by Tab; the arrow keys lead to the others. */
  function roam(key = [...cards].find(([, card]) => card.element.tabIndex === 0)?.[0] ?? picture.nodes[0]?.key) {
    for (const [each, card] of cards) card.element.tabIndex = each === key ? 0 : -1;
  }

  drag(element);
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = element.getBoundingClientRect();
    rescale(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  new MutationObserver(() => {
    colours = stripColours();
    for (const card of cards.values()) paint(card);
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  return { element, show, mark, light, zoom, focus, reveal, colours: () => colours };
}

/** A drag with the pointer on the ground moves the picture. */
function drag(element) {
  let from = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest(".card")) return;
    from = { x: event.clientX + element.scrollLeft, y: event.clientY + element.scrollTop };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!from) return;
    element.scrollLeft = from.x - event.clientX;
    element.scrollTop = from.y - event.clientY;
  });
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => { from = null; });
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
  if (node.irrecoverable_bytes) return `${formatBytes(node.irrecoverable_bytes)} would be gone`;
  return node.exposed_bytes ? `${formatBytes(node.exposed_bytes)} at risk` : "";
}

function describe(node) {
  return [
    node.label, node.is_group ? `group of ${formatCount(node.templates, "template")}` : "", node.operation && `operation ${node.operation}`,
    describeStates(node.states), risk(node), node.stale ? `${node.stale} made from a superseded generation` : "",
    node.pinned ? `${node.pinned} pinned` : "", node.checkpoints ? formatCount(node.checkpoints, "checkpoint") : "",
  ].filter(Boolean).map(visible).join(", ");
}
