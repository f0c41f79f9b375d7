// A state as a shape and a word; the style sheet colours its class.

import { h, s } from "./elements.js";

/** The shape of a state among `shapes`, in an SVG of 17 by 18; a path that is not closed is a line. */
export function shape(state, shapes) {
  const path = shapes[state] ?? "M8 9 h1";
  return s("path", { d: path, class: `shape ${named(state)}${path.endsWith("Z") ? "" : " open"}`, "aria-hidden": "true" });
}

/** A state in running text, as a badge of its colour. */
export function badgeOf(state, shapes) {
  return h(
    "span",
    { class: `state ${named(state)}` },
    s("svg", { viewBox: "0 0 17 18", width: 13, height: 14, "aria-hidden": "true" }, shape(state, shapes)),
    state,
  );
}

/** The class that gives a state its colour. */
function named(state) {
  return state.replaceAll(" ", "-");
}
