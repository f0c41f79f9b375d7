// The jobs that a person may read: how each is, and how far behind.

import { query } from "./asking.js";
import { h, table } from "./elements.js";
import { live, say } from "./frame.js";
import { healthBadge, lagOf } from "./health.js";
import { counted, sayBytes, sayNumber, saySeconds, sayTime } from "./saying.js";
import { settle } from "./settling.js";

/** Show them in `place`, from now on. */
export function showJobs(place) {
  const count = h("p", { class: "count", role: "status" });
  const rows = h("div");
  place.append(count, rows);
  say("asking …");
  live(() => "streams", ({ streams }) => {
    const run = streams.filter((seen) => seen.state === "running").length;
    settle(count, streams.length ? `${counted(streams.length, "job")}, ${run} running` : "");
    settle(rows, streams.length ? told(streams) : h("p", { class: "empty" },
      "There is no stream job that you may read. Jobs are declared in streams.toml, or in the file that SPRINGLINE_STREAMS names."));
  });
}

const most = (seen, of) => Math.max(0, ...Object.values(seen.stages).map(of));
const known = (value, say) => (value === null ? "" : say(value));

/** The stages that hold others back, or are held back. */
function pressed({ backpressure }) {
  return Object.entries(backpressure.stages ?? {}).filter(([, stage]) => stage.state !== "level");
}

function told(streams) {
  const columns = [
    { title: "job", cell: ({ seen }) => h("a", { href: `streams${query({ job: seen.job })}` }, seen.job) },
    { title: "state", cell: ({ seen }) => [healthBadge(seen.state), seen.error && h("p", { class: "trouble wrong" }, seen.error)] },
    { title: "runs since", cell: ({ seen }) => sayTime(seen.began) },
    { title: "rounds", number: true, cell: ({ seen }) => known(most(seen, (stage) => stage.round) || null, sayNumber) },
    { title: "behind", number: true, cell: ({ lag }) => known(lag.messages, (value) => counted(value, "message")) },
    { title: "waits", number: true, cell: ({ lag }) => known(lag.bytes, sayBytes) },
    { title: "would take", number: true, cell: ({ lag }) => known(lag.seconds, saySeconds) },
    { title: "back-pressure", cell: ({ seen }) => pressed(seen).map(([name, { state }]) => h("div", { class: "short" }, `${name} `, healthBadge(state))) },
    { title: "a round takes", number: true, cell: ({ seen }) => known(most(seen, (stage) => stage.seconds) || null, saySeconds) },
    { title: "last round", cell: ({ seen }) => sayTime(most(seen, (stage) => stage.at) || null) },
  ];
  return table("Stream jobs", columns, streams.map((seen) => ({ seen, lag: lagOf(seen) })), ({ seen }) => seen.job);
}
