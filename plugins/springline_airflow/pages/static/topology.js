// The topology of a job, from its source topics to its results; pure functions.

/**
 * Nodes and edges of a job of `upstreams` (by stage, in the order in which records pass), `reads` and `results` (topics
 * by stage), as `routed` takes them. A node is a stage or a topic, by its `name`; each stands behind all that lead to it.
 */
export function topologyOf({ upstreams, reads, results }) {
  const stages = Object.keys(upstreams);
  const edges = stages.flatMap((stage) => upstreams[stage].map((one) => ({ source: keyOf(one), target: keyOf(stage) })));
  const layers = new Map();
  for (const stage of stages) layers.set(stage, 1 + Math.max(0, ...upstreams[stage].map((one) => layers.get(one))));
  const nodes = stages.map((stage) => ({ key: keyOf(stage), name: stage, kind: "stage", layer: layers.get(stage) }));
  const last = 1 + Math.max(0, ...layers.values());
  for (const [stage, topic] of Object.entries(reads)) {
    edges.push({ source: topicAt(nodes, "from", topic, 0), target: keyOf(stage) });
  }
  for (const [stage, topic] of Object.entries(results)) {
    edges.push({ source: keyOf(stage), target: topicAt(nodes, "to", topic, last) });
  }
  return { nodes: nodes.map((node, place) => ({ ...node, place })), edges };
}

/** The key of a stage among the nodes. */
export function keyOf(stage) {
  return `stage ${stage}`;
}

/** The key of a topic, which is a node from then on. */
function topicAt(nodes, way, topic, layer) {
  const key = `${way} ${topic}`;
  if (!nodes.some((node) => node.key === key)) nodes.push({ key, name: topic, kind: "topic", layer });
  return key;
}
