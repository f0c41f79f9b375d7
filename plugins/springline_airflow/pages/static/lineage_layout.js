// Where the cards of the lineage stand: those with edges in layers, the others in rows below them; pure functions.

import { routed } from "./routing.js";

const GAP = 18; // between two rows
const MARGIN = 16;
const COLUMNS = 6; // of rows, if no card has an edge

/**
 * The same as `routed`, with `nodes` added: each with the layer and the place at which it stands. A card without edges
 * would stand in the first layer, which many of them would make much higher than all others.
 */
export function arranged(nodes, edges, sizes) {
  const keys = new Set(edges.flatMap(({ source, target }) => [source, target]));
  const connected = nodes.filter((node) => keys.has(node.key));
  const single = nodes.filter((node) => !keys.has(node.key));
  const whole = routed(connected, edges, sizes);
  const layers = Math.max(0, ...connected.map((node) => node.layer + 1));
  const columns = layers > 1 ? layers : Math.min(COLUMNS, Math.max(single.length, 1));
  const top = connected.length ? whole.height : MARGIN;
  const rowHeight = 2 * sizes.half.node + GAP;
  const placed = single.map((node, i) => ({ ...node, layer: i % columns, place: nodes.length + Math.floor(i / columns) }));
  for (const node of placed) {
    whole.corners.set(node.key, { x: MARGIN + node.layer * sizes.across, y: top + (node.place - nodes.length) * rowHeight });
  }
  const rows = Math.ceil(single.length / columns);
  const used = Math.max(0, ...placed.map((node) => node.layer));
  return {
    ...whole,
    nodes: [...connected, ...placed],
    width: Math.max(connected.length ? whole.width : 0, placed.length ? 2 * MARGIN + used * sizes.across + sizes.width : 0),
    height: rows ? top + rows * rowHeight - GAP + MARGIN : whole.height,
  };
}
