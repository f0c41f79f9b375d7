// One job: how it is, its stages, and what its kind has besides.

import { jobPlace, post } from "./asking.js";
import { confirmed } from "./dialogs.js";
import { h, table, tiles } from "./elements.js";
import { live, outward, say } from "./frame.js";
import { healthBadge, lagOf } from "./health.js";
import { joinPart } from "./joined.js";
import { pressurePart } from "./pressure.js";
import { counted, sayBytes, sayNumber, saySeconds, sayTime } from "./saying.js";
import { settle } from "./settling.js";
import { trackingParts } from "./tracked.js";
import { windowsParts } from "./windows.js";

const PARTS = { queries: windowsParts, tracking: trackingParts, join: joinPart };
const OWN = new Set(["rows", "results", "late", "dead"]); // counts that have columns of their own

/** Show it in `place`, from now on. */
export function showJob(place, job) {
  const head = h("div");
  let more = null;
  document.title = `${job} · Springline`;
  place.append(h("p", { class: "back" }, h("a", { href: "streams" }, "All streams")), head);
  say("asking …");
  const again = live(() => jobPlace(job), (seen) => {
    settle(head, ...[about(seen, () => again()), stages(seen)].flat(Infinity).filter(Boolean));
    if (more) return;
    more = [pressurePart(job, seen.may_change), ...seen.answers.map((name) => PARTS[name](job, seen.may_change))].flat();
    place.append(...more);
  });
}

function about(seen, again) {
  const lag = lagOf(seen);
  const lives = ["starting", "running", "silent"].includes(seen.state);
  return [
    h("h2", { class: "name" }, `${seen.job} `, healthBadge(seen.state)),
    seen.error && h("p", { class: "wrong", role: "alert" }, seen.error),
    lives && seen.may_change && h("p", { class: "buttons" }, h("button", { type: "button", onclick: (event) => stop(seen.job, again, event.currentTarget) }, "Stop")),
    !seen.may_change && h("p", { class: "refused" }, `Nothing is to be changed by you: you may not change the DAG ${seen.dag_id}.`),
    tiles([
      ["behind", lag.messages === null ? "" : counted(lag.messages, "message")],
      ["waits before its stages", lag.bytes === null ? "" : sayBytes(lag.bytes)],
      ["would take", lag.seconds === null ? "" : saySeconds(lag.seconds)],
      ["runs since", sayTime(seen.began)], ["process", seen.pid ?? ""],
      ["supervised by", outward(`dags/${encodeURIComponent(seen.dag_id)}`, seen.dag_id)],
    ]),
    !lives && h("p", {}, "To start it, trigger its DAG."),
  ];
}

function stop(job, again, opener) {
  const words = `The application of ${job} ends when the rounds that are planned are through. Started again, it goes on from there.`;
  confirmed("Stop", opener, async () => ({ allowed: true, words }), async () => {
    await post(jobPlace(job, "stop"), {});
    again();
  });
}

function stages(seen) {
  const rows = Object.entries(seen.stages);
  if (!rows.length) return h("p", { class: "empty" }, "It has not run a round yet.");
  const counts = (names) => ([, stage]) => {
    const name = names.find((each) => each in stage.counts);
    return name ? sayNumber(stage.counts[name]) : "";
  };
  const others = ([, stage]) => Object.entries(stage.counts).filter(([name, count]) => count && !OWN.has(name))
    .map(([name, count]) => `${name} ${sayNumber(count)}`).join(", ");
  const number = (title, cell) => ({ title, number: true, cell });
  const columns = [
    { title: "stage", cell: ([name]) => name },
    number("units", ([, stage]) => String(stage.units ?? "")),
    number("round", ([, stage]) => sayNumber(stage.round)),
    number("rows", counts(["rows", "results"])),
    number("behind", ([, stage]) => counted(stage.behind ?? 0, "message")),
    number("a round takes", ([, stage]) => saySeconds(stage.seconds ?? null)),
    number("state", ([, stage]) => sayBytes(stage.state_bytes ?? 0)),
    number("late", counts(["late"])),
    number("dead", counts(["dead"])),
    { title: "counted besides", wide: true, cell: others },
    { title: "last round", cell: ([, stage]) => sayTime(stage.at || null) },
  ];
  const given = columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
  return [h("h2", {}, "Stages"), table("Stages, in the order in which records pass", given, rows, ([name]) => name)];
}
