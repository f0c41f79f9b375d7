// The history of a generation as a vertical timeline, the newest event first.

import { h, s } from "./elements.js";
import { sentence } from "./format.js";
import { ago } from "./relative_time.js";
import { shapeOf } from "./states.js";

// What an event means, and the state whose sign stands beside it.
const EVENTS = {
  opened: ["Write began", "writing"],
  cached: ["Written to the cache", "cached"],
  written_to_under_store: ["Written to the under-store, since the cache had no space", "persisted"],
  committed: ["Committed: readers see it", "cached"],
  claimed: ["Transfer to the under-store began", "persisting"],
  copied: ["Persisted: a verified copy is in the under-store", "persisted"],
  released: ["Transfer ended without a copy", "cached"],
  evicted: ["Evicted from the cache", "evicted"],
  lost: ["Lost from the cache", "lost"],
  under_store_lost: ["Copy in the under-store lost", "lost"],
  restored: ["Restored to the cache", "cached"],
  abandoned: ["Abandoned: its write failed", "irrecoverable"],
  retired: ["Retired: its files are deleted", "evicted"],
  expedited: ["Moved to the head of the queue", ""],
  pinned: ["Pinned: neither evicted nor retired", ""],
  unpinned: ["Unpinned", ""],
  marked: ["Marked as checkpoint", ""],
  unmarked: ["No longer marked as checkpoint", ""],
  recovery_requested: ["Recovery requested", ""],
  persist_abandoned: ["Persisting abandoned", "lost"],
  proven: ["Its operation was proven idempotent", ""],
  nondeterministic: ["Its operation gave other rows when it was run again", "lost"],
  in_table: ["In its table, for other engines", "persisted"],
  rebuilt: ["Recorded again from its copy", ""],
};

/** The section; `history` is in the order in which it happened. */
export function timeline({ history }) {
  return h("section", { "aria-label": "History", class: "history" }, h("h2", {}, "History"),
    history.length ? h("ol", { class: "timeline" }, [...history].reverse().map(entry)) : h("p", { class: "empty" }, "Nothing is recorded."));
}

function entry({ timestamp, event, actor, reason }) {
  const [words, state] = EVENTS[event] ?? [sentence(event.replaceAll("_", " ")).slice(0, -1), ""];
  return h("li", {},
    s("svg", { viewBox: "0 0 17 18", width: 17, height: 18, class: "sign", "aria-hidden": "true" },
      state ? shapeOf(state) : s("circle", { cx: 8.5, cy: 9, r: 3.5, class: "dot" })),
    h("p", { class: "event" }, words), h("p", { class: "when" }, ago(timestamp), actor && [" · ", h("bdi", {}, actor)]),
    reason && h("p", { class: "reason" }, sentence(reason)));
}
