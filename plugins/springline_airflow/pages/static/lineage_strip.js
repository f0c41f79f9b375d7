// The states of a template's partitions as a strip: a column each, told apart by height and gaps as well as colour.

/** The state of each letter of a strip; `m` and `.` are no states of a dataset. */
export const STATE_OF = { w: "writing", c: "cached", g: "persisting", p: "persisted", e: "evicted", l: "lost", x: "irrecoverable", m: "missing", ".": "" };

const HEIGHT = 14;
// The filled parts of a column, as [from, to] of its height, from the top.
const PARTS = {
  p: [[0, 1]], g: [[0, 0.3], [0.4, 1]], c: [[0.3, 1]], w: [[0.7, 1]], e: [[0.15, 1]],
  l: [[0, 0.36], [0.64, 1]], x: [[0, 0.24], [0.38, 0.62], [0.76, 1]], m: [[0.9, 1]], ".": [],
};

/** The colours of the letters, as the theme of the page has them. */
export function stripColours() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const pairs = Object.entries(STATE_OF).filter(([, state]) => state && state !== "missing");
  return { ...Object.fromEntries(pairs.map(([letter, state]) => [letter, colour(state)])), m: colour("faint"), mark: colour("text") };
}

/** The width of a column of a strip that is `width` wide; a short strip does not fill it. */
export function columnWidth(letters, width, widest = 14) {
  return Math.min(widest, width / Math.max(letters.length, 1));
}

/** Draw a strip of `letters` on a canvas; `marked` is the index of the selected column, or -1. */
export function drawStrip(canvas, letters, width, colours, marked = -1, { height = HEIGHT, widest = undefined } = {}) {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const column = columnWidth(letters, width, widest);
  const gap = column > 4 ? 1 : 0.5;
  [...letters].forEach((letter, i) => {
    context.fillStyle = colours[letter] ?? "transparent";
    for (const [from, to] of PARTS[letter] ?? []) {
      context.fillRect(i * column, 1 + from * (height - 2), Math.max(column - gap, 0.8), (to - from) * (height - 2));
    }
  });
  if (marked >= 0) {
    context.strokeStyle = colours.mark;
    context.lineWidth = 1.5;
    context.strokeRect(Math.max(marked * column - 0.75, 0.75), 0.75, Math.max(column + 0.5, 3), height - 1.5);
  }
}

/** The index of the column at `x` pixels, or -1. */
export function columnAt(letters, width, x, widest = undefined) {
  const i = Math.floor(x / columnWidth(letters, width, widest));
  return i >= 0 && i < letters.length ? i : -1;
}

/** The counts of a strip's states, as words: `58 persisted, 2 lost`. */
export function describeStates(states) {
  return Object.entries(states).sort(([, a], [, b]) => b - a).map(([state, count]) => `${count.toLocaleString("en")} ${state}`).join(", ");
}
