// The topology of a job: its stages in layers, each behind all that lead to it; pure functions.

/**
 * Nodes and edges of a job of `upstreams` (by stage, in the order in which records pass), as `routed` takes them.
 * The key of a node is the name of its stage.
 */
export function topologyOf({ upstreams }) {
  const stages = Object.keys(upstreams);
  const layers = new Map();
  for (const stage of stages) layers.set(stage, upstreams[stage].length ? 1 + Math.max(...upstreams[stage].map((one) => layers.get(one))) : 0);
  const nodes = stages.map((stage, place) => ({ key: stage, layer: layers.get(stage), place }));
  const edges = stages.flatMap((stage) => upstreams[stage].map((one) => ({ source: one, target: stage })));
  return { nodes, edges };
}
