// Texts and keyboard order of a drawn graph: pure functions.

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
