// The health of a job and the load of its stages: a word and a shape for each, and how far behind a job is.

import { badgeOf } from "./badges.js";
import { h, timeElement } from "./elements.js";
import { sentence } from "./format.js";

const SHAPES = {
  ok: "M3 9.5 L7 13.5 L14 4.5", // a tick
  lagging: "M8.5 3 A6.5 6.5 0 1 0 8.6 3 M8.5 6 V9.5 L11.5 11.5", // a clock
  stalled: "M5.5 4 V15 M11.5 4 V15", // paused
  failed: "M8 2 L15 15 H1 Z M8 6.5 V10.5 M8 12.8 V13", // a warning
  starting: "M9 2.5 A6.5 6.5 0 1 1 2.8 7", // an incomplete circle
  stopped: "M3.5 4.5 H13.5 V14.5 H3.5 Z",
  "never started": "M8.5 3 A6.5 6.5 0 1 0 8.6 3", // an empty circle
  normal: "M2 7 H15 M2 12 H15",
  throttled: "M3 4 L8.5 9 L14 4 M3 10 L8.5 15 L14 10", // downwards
  overloaded: "M3 15 V12 M8.5 15 V8 M14 15 V3", // what grows
};

/** All healths of a job, the worst first. */
export const HEALTHS = ["failed", "stalled", "lagging", "starting", "ok", "stopped", "never started"];

/** The health of a job or the load of a stage, in running text. */
export function healthBadge(state) {
  return badgeOf(state, SHAPES);
}

/** Why a job has its health, and since when; an error begins with a name, which stays as it is written. */
export function healthReason({ health, health_reason: reason, health_since: since }) {
  return [health === "failed" ? `${reason}${/[.!?]$/.test(reason) ? "" : "."}` : sentence(reason), since !== null && h("span", { class: "faint" }, " Since ", timeElement(since), ".")];
}

/** Whether a job has a process, so that its lag is one of now. */
export function isAlive({ state }) {
  return ["starting", "running", "silent"].includes(state);
}

/**
 * The lag of a job: `messages` of the unit with the greatest lag, `bytes` queued before its stages, and the
 * `seconds` that the slowest stage needs for them; null if unknown.
 */
export function lagOf({ stages, backpressure }) {
  const pressed = Object.values(backpressure.stages ?? {});
  const most = (values) => values.reduce((greatest, value) => (value === null ? greatest : Math.max(greatest ?? 0, value)), null);
  return {
    messages: most(Object.values(stages).map((stage) => stage.lag ?? 0)),
    bytes: pressed.length ? pressed.reduce((sum, stage) => sum + stage.queue, 0) : null,
    seconds: most(pressed.map((stage) => stage.seconds)),
  };
}

/** The event time that all stages of a job have reached (seconds since 1970); null if they have none. */
export function watermarkOf({ stages }) {
  const marks = Object.values(stages).map((stage) => stage.watermark ?? null).filter((mark) => mark !== null);
  return marks.length ? Math.min(...marks) : null;
}

/** The dead letters of a job since its first start. */
export function deadLettersOf({ stages, tracking }) {
  const counted = Object.values(stages).reduce((sum, { counts }) => sum + (counts.dead_letters ?? 0), 0);
  return Math.max(counted, tracking.failed ?? 0);
}
