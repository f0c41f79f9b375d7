// What lights up, fits and follows in the picture, and how it is said: plain values only, so that it can be tried alone.

/** What would have to be made again, in order, to have `key` again without the cache; `key` comes last. */
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

/** The chain in words. */
export function describeChain(node, byKey) {
  const { irrecoverable = 0, recomputable = 0, unproven = 0, persisted = 0 } = node.recovery_kinds;
  if (node.datasets > 1) {
    return [persisted && `${persisted} kept in the under-store`, recomputable && `${recomputable} could be made again`,
      unproven && `${unproven} might be made again, by operations that were never seen to repeat`,
      irrecoverable && `${irrecoverable} would be gone for good`].filter(Boolean).join(", ");
  }
  if (irrecoverable) return `Unrecoverable if the cache were lost: ${node.irrecoverable_reasons.join("; ")}`;
  if (persisted) return "Kept in the under-store: nothing would have to be made again.";
  const chain = chainOf(node.key, byKey).join(" → ");
  return unproven ? `Might be made again, by operations of which some were never seen to repeat, in this order: ${chain}`
    : `Would be made again, in this order: ${chain}`;
}

/** Whether a node fits what is searched for and, if states are chosen, has one of them. */
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
