// Layout of the graph: positions of nodes, and paths of edges; pure functions.
//
// The server says which layer a node stands in, and after whom. An edge over several layers gets a lane in each layer
// between, as Sugiyama, Tagawa and Toda (1981) do it, so that it passes beside nodes and never behind them. Then each
// layer is moved towards its neighbours, as far as the order allows.

const MARGIN = 16;
const SWEEPS = 6; // more hardly moves anything

function gapBetween(a, b) {
  if (a.kind === "lane" && b.kind === "lane") return 4;
  return a.kind === "lane" || b.kind === "lane" ? 9 : 18;
}

/** How far apart the middles of two neighbours in a layer are at least. */
function apart(above, below) {
  return above.half + gapBetween(above, below) + below.half;
}

/**
 * The left upper corner of each node, by key; the points of each edge, in the edges' order; the size of the whole.
 * The first point of an edge is at the right side of its source; then a curve and a straight line take turns.
 * `width` is that of a node, `across` the distance from layer to layer, `half` half the height of a node and of a lane.
 */
export function routed(nodes, edges, { width, across, half }) {
  const leftOf = (stop) => MARGIN + stop.layer * across;
  const rows = rowsOf(nodes, half);
  const stops = new Map(rows.flat().map((stop) => [stop.key, stop]));
  const ways = edges.map((edge) => wayOf(edge, stops, rows, half));
  for (const row of rows) {
    for (const stop of row) if (stop.kind === "lane") stop.y = mean(stop.hopes);
    row.sort((a, b) => a.y - b.y || a.place - b.place);
    spread(row, row.map((stop) => stop.y));
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forward = sweep % 2 === 0;
    for (const row of forward ? rows : [...rows].reverse()) {
      spread(row, row.map((stop) => {
        const near = forward ? stop.predecessors : stop.successors;
        return near.size ? mean([...near].map((other) => other.y)) : stop.y;
      }));
    }
  }
  const every = rows.flat();
  const top = Math.min(...every.map((stop) => stop.y - stop.half), Infinity);
  const bottom = Math.max(...every.map((stop) => stop.y + stop.half), -Infinity);
  for (const stop of every) stop.y += MARGIN - top;
  const corners = new Map(nodes.map(({ key }) => [key, { x: leftOf(stops.get(key)), y: stops.get(key).y - half.node }]));
  return {
    corners,
    lines: ways.map((way) => pointsOf(way, leftOf, width)),
    width: 2 * MARGIN + Math.max(0, rows.length - 1) * across + width,
    height: every.length ? 2 * MARGIN + bottom - top : 2 * MARGIN,
  };
}

/** The stops of each layer, in their order, one below the other; short layers stand in the middle. */
function rowsOf(nodes, half) {
  const rows = Array.from({ length: Math.max(-1, ...nodes.map((node) => node.layer)) + 1 }, () => []);
  for (const { key, layer, place } of nodes) {
    rows[layer].push({ key, layer, place, kind: "node", half: half.node, y: 0, predecessors: new Set(), successors: new Set() });
  }
  for (const row of rows) {
    row.sort((a, b) => a.place - b.place);
    row.forEach((stop, i) => { stop.y = i && row[i - 1].y + apart(row[i - 1], stop); });
    const middle = row.length && row.at(-1).y / 2;
    for (const stop of row) stop.y -= middle;
  }
  return rows;
}

/** The stops of an edge: its source, a lane in each layer between, its target. Edges of one source share their lanes. */
function wayOf({ source, target }, stops, rows, half) {
  const from = stops.get(source);
  const to = stops.get(target);
  const way = [from];
  for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
    const key = `lane:${layer}:${source}`;
    if (!stops.has(key)) {
      const lane = {
        key, layer, place: from.place, kind: "lane", half: half.lane, y: 0, hopes: [], predecessors: new Set(), successors: new Set(),
      };
      stops.set(key, lane);
      rows[layer].push(lane);
    }
    const lane = stops.get(key);
    lane.hopes.push(from.y + ((to.y - from.y) * (layer - from.layer)) / (to.layer - from.layer));
    way.push(lane);
  }
  way.push(to);
  if (from.layer < to.layer) {
    for (let i = 1; i < way.length; i += 1) {
      way[i].predecessors.add(way[i - 1]);
      way[i - 1].successors.add(way[i]);
    }
  }
  return way;
}

/**
 * Give the stops of a row the heights nearest to those wanted, by least squares, that keep their order and their room:
 * neighbours who come too near each other are moved as one block (pool adjacent violators).
 */
function spread(row, heights) {
  const blocks = [];
  let below = 0; // of this stop, if all stood as close as they may
  row.forEach((stop, i) => {
    if (i) below += apart(row[i - 1], stop);
    stop.below = below;
    let block = { sum: heights[i] - below, stops: [stop] };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).stops.length > block.sum / block.stops.length) {
      const earlier = blocks.pop();
      block = { sum: earlier.sum + block.sum, stops: [...earlier.stops, ...block.stops] };
    }
    blocks.push(block);
  });
  for (const { sum, stops } of blocks) for (const stop of stops) stop.y = sum / stops.length + stop.below;
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function pointsOf(way, leftOf, width) {
  const [from, to] = [way[0], way.at(-1)];
  const points = [{ x: leftOf(from) + width, y: from.y }];
  for (const lane of way.slice(1, -1)) points.push({ x: leftOf(lane), y: lane.y }, { x: leftOf(lane) + width, y: lane.y });
  points.push({ x: from.layer < to.layer ? leftOf(to) : leftOf(to) + width, y: to.y });
  return points;
}

/** The points of an edge as an SVG path; between two nodes of one layer, as folds have them, it turns back. */
export function lineOf(points) {
  const parts = [`M${points[0].x} ${points[0].y}`];
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    if (i % 2 === 0) parts.push(`L${to.x} ${to.y}`);
    else if (to.x > from.x) parts.push(`C${(from.x + to.x) / 2} ${from.y} ${(from.x + to.x) / 2} ${to.y} ${to.x} ${to.y}`);
    else parts.push(`C${from.x + 60} ${from.y} ${from.x + 60} ${to.y} ${to.x} ${to.y}`);
  }
  return parts.join(" ");
}
