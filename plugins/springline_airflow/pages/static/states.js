// The state of a dataset as a shape and a word; the style sheet adds the colour. Each state has its own shape.

import { badgeOf, shape } from "./badges.js";

const SHAPES = {
  writing: "M2 16 L3 12 L11 4 L14 7 L6 15 Z", // a pen
  cached: "M10 1 L3 10 H8 L6 17 L14 7 H9 Z", // a bolt: in memory
  persisting: "M8 2 V11 M4 7.5 L8 11.5 L12 7.5 M2 16 H14", // on its way down
  persisted: "M1.5 2.5 H15.5 V16.5 H1.5 Z M4 9.5 L7.2 12.7 L13 6.5 L11.7 5.2 L7.2 10 L5.3 8.2 Z", // a block, ticked
  evicted: "M11 2 A7.5 7.5 0 1 0 15.5 12 A6.5 6.5 0 0 1 11 2 Z", // a crescent: at rest below
  lost: "M8 2 L15 15 H1 Z M8 6.5 V10.5 M8 12.8 V13", // a warning
  irrecoverable: "M3 3.5 L14 14.5 M14 3.5 L3 14.5", // a cross
};

export const STATES = Object.keys(SHAPES);

/** The shape of a state, in an SVG of 17 by 18. */
export function shapeOf(state) {
  return shape(state, SHAPES);
}

/** A state in running text. */
export function badge(state) {
  return badgeOf(state, SHAPES);
}
