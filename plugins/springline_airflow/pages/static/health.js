// The health of a job and the load of its stages: a word and a shape for each.

import { badgeOf } from "./badges.js";

const SHAPES = {
  starting: "M9 2.5 A6.5 6.5 0 1 1 2.8 7", // an incomplete circle
  running: "M4.5 3 L14.5 9.5 L4.5 16 Z",
  silent: "M3 9.5 h0.5 M8.3 9.5 h0.5 M13.5 9.5 h0.5", // three points
  stopped: "M3.5 4.5 H13.5 V14.5 H3.5 Z",
  failed: "M8 2 L15 15 H1 Z M8 6.5 V10.5 M8 12.8 V13", // a warning
  dead: "M3 3.5 L14 14.5 M14 3.5 L3 14.5", // a cross
  "never started": "M8.5 3 A6.5 6.5 0 1 0 8.6 3", // an empty circle
  level: "M2 7 H15 M2 12 H15",
  throttled: "M3 4 L8.5 9 L14 4 M3 10 L8.5 15 L14 10", // downwards
  overloaded: "M3 15 V12 M8.5 15 V8 M14 15 V3", // what grows
};

/** The health of a job or of a stage, in running text. */
export function healthBadge(state) {
  return badgeOf(state, SHAPES);
}

/**
 * The lag of a job: `messages` of the unit with the greatest lag, `bytes` queued before its stages, and the
 * `seconds` that the slowest stage needs for them; null if unknown.
 */
export function lagOf({ stages, backpressure }) {
  const pressed = Object.values(backpressure.stages ?? {});
  const most = (values) => values.reduce((greatest, value) => (value === null ? greatest : Math.max(greatest ?? 0, value)), null);
  return {
    messages: most(Object.values(stages).map((stage) => stage.lag)),
    bytes: pressed.length ? pressed.reduce((sum, stage) => sum + stage.queue, 0) : null,
    seconds: most(pressed.map((stage) => stage.seconds)),
  };
}
