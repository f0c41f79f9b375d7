// The states of a template's partitions as a strip: a column each, which gaps and heights distinguish as well as colour.

import { s } from "./elements.js";

/** The state of each letter of a strip; `m` and `.` are no states of a dataset. */
export const STATE_OF = { w: "writing", c: "cached", g: "persisting", p: "persisted", e: "evicted", l: "lost", x: "irrecoverable", m: "missing", ".": "" };

const WIDEST = 14; // of a column
// The filled parts of a column, as [from, to] of its height, from the top.
const PARTS = {
  p: [[0, 1]], g: [[0, 0.3], [0.4, 1]], c: [[0.3, 1]], w: [[0.7, 1]], e: [[0.15, 1]],
  l: [[0, 0.36], [0.64, 1]], x: [[0, 0.24], [0.38, 0.62], [0.76, 1]], m: [[0.9, 1]],
};

const round = (value) => Math.round(value * 100) / 100;

/** The width of a column of a strip that is `width` wide; a short strip does not fill it. */
function columnWidth(letters, width, widest) {
  return Math.min(widest, width / Math.max(letters.length, 1));
}

/** A strip of `letters`; `marked` is the index of the selected column, or -1. */
export function strip(letters, width, marked = -1, { height = 14, widest = WIDEST } = {}) {
  const column = columnWidth(letters, width, widest);
  const filled = Math.max(column - (column > 4 ? 1 : 0.5), 0.8);
  const paths = new Map();
  [...letters].forEach((letter, i) => {
    for (const [from, to] of PARTS[letter] ?? []) {
      const rectangle = `M${round(i * column)} ${round(1 + from * (height - 2))}h${round(filled)}v${round((to - from) * (height - 2))}h${-round(filled)}z`;
      paths.set(letter, (paths.get(letter) ?? "") + rectangle);
    }
  });
  return s("svg", { class: "strip", width, height, "aria-hidden": "true" },
    [...paths].map(([letter, path]) => s("path", { class: `part ${STATE_OF[letter]}`, d: path })),
    marked >= 0 && s("rect", { class: "mark", x: round(Math.max(marked * column - 0.75, 0.75)), y: 0.75, width: round(Math.max(column + 0.5, 3)), height: height - 1.5 }));
}

/** The index of the column at `x` pixels, or -1. */
export function columnAt(letters, width, x, widest = WIDEST) {
  const i = Math.floor(x / columnWidth(letters, width, widest));
  return i >= 0 && i < letters.length ? i : -1;
}

/** The counts of a strip's states, as words: `58 persisted, 2 lost`. */
export function describeStates(states) {
  return Object.entries(states).sort(([, a], [, b]) => b - a).map(([state, count]) => `${count.toLocaleString("en")} ${state}`).join(", ");
}
