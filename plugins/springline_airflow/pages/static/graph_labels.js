// Highlighting, filtering and keyboard order of the lineage graph, and its texts: pure functions.

/** The datasets to be recomputed, in order, to bring back `key` without the cache; `key` comes last. */
export function chainOf(key, byKey) {
  const order = [];
  const visited = new Set();
  const stack = [[key, false]];
  while (stack.length) {
    const [next, back] = stack.pop();
    if (back) {
      order.push(next);
      continue;
    }
    if (visited.has(next) || !byKey.has(next)) continue;
    visited.add(next);
    stack.push([next, true]);
    for (const need of byKey.get(next).needs) stack.push([need, false]);
  }
  return order;
}

/** The chain as a sentence. */
export function describeChain(node, byKey) {
  const { irrecoverable = 0, recomputable = 0, unproven = 0, persisted = 0 } = node.recovery_kinds;
  if (node.datasets > 1) {
    return [persisted && `${persisted} persisted`, recomputable && `${recomputable} recomputable`,
      unproven && `${unproven} recomputable only by operations that are not proven idempotent`,
      irrecoverable && `${irrecoverable} irrecoverable`].filter(Boolean).join(", ");
  }
  if (irrecoverable) return `Irrecoverable if the cache were lost: ${node.irrecoverable_reasons.join("; ")}`;
  if (persisted) return "Persisted: nothing would have to be recomputed.";
  const chain = chainOf(node.key, byKey).join(" → ");
  return unproven ? `Would be recomputed in this order, by operations that are not all proven idempotent: ${chain}`
    : `Would be recomputed in this order: ${chain}`;
}

/** Whether a node matches the search text and the selected states. */
export function fits(node, text, states) {
  const searchable = [node.label, node.operation, node.dag_id, node.run_id, node.task_id].join("\n").toLowerCase();
  const hasState = states.size === 0 || [...states].some((state) => node.states[state]);
  return searchable.includes(text.trim().toLowerCase()) && (node.kind === "operation" ? states.size === 0 : hasState);
}

/** The node that an arrow key leads to: the nearest in the layer, or the nearest place in the next layer that has one. */
export function neighbourOf(node, nodes, key) {
  const steps = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (!(key in steps)) return undefined;
  const [across, down] = steps[key];
  const ahead = nodes.filter((other) => across
    ? (other.layer - node.layer) * across > 0
    : other.layer === node.layer && (other.place - node.place) * down > 0);
  const away = (other) => [Math.abs(other.layer - node.layer), Math.abs(other.place - node.place)];
  return ahead.sort((a, b) => away(a)[0] - away(b)[0] || away(a)[1] - away(b)[1] || a.place - b.place)[0];
}

/** A label that fits into a node; the middle goes, since names differ at their ends. */
export function shortened(label, most = 23) {
  const letters = [...label];
  if (letters.length <= most) return label;
  const letterCount = most - 1;
  return `${letters.slice(0, Math.floor(letterCount / 3)).join("")}…${letters.slice(-Math.ceil((letterCount * 2) / 3)).join("")}`;
}
