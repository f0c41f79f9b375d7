// Tracking: what is in flight, completed, sent again and given up, and the records that failed, to be sent again.

import { jobPlace, post } from "./asking.js";
import { confirmed } from "./dialogs.js";
import { h, table, tiles } from "./elements.js";
import { RARELY, livePart } from "./parts.js";
import { sayBytes, sayNumber, saySeconds } from "./saying.js";

const LAST = 20; // failed records, the newest

/** The parts of a job's page; who may change the job may have failed records sent again. */
export function trackingParts(job, mayChange) {
  const counts = livePart("Tracking", () => jobPlace(job, "tracking"), told);
  const send = (each, opener) => sendAgain(job, each, opener, () => failed.again());
  const show = (answer) => letters(answer, mayChange ? send : null);
  const failed = livePart("Failed records", () => `${jobPlace(job, "tracking", "failed")}?last=${LAST}`, show, { every: RARELY });
  return [counts.part, failed.part];
}

function told(tracking) {
  const { p50, p90, p99 } = tracking.seconds;
  const times = [["half", p50], ["90 %", p90], ["99 %", p99]].filter(([, seconds]) => seconds !== null)
    .map(([share, seconds]) => `${share} within ${saySeconds(seconds)}`).join(", ");
  const marks = Object.entries(tracking.lows).map(([partition, offset]) => `${partition}: ${sayNumber(offset)}`).join(", ");
  return [
    tracking.waits && h("p", { class: "wrong" }, "The source waits: as many records are in flight as there may be."),
    tracking.still && h("p", {}, `Time-outs stand still: ${tracking.still}.`),
    tiles([
      ["in flight", sayNumber(tracking.in_flight)], ["completed", sayNumber(tracking.completed)],
      ["sent again", sayNumber(tracking.again)], ["given up", sayNumber(tracking.gone)],
      ["held by ackers", sayBytes(tracking.bytes)], ["complete", times], ["through, by partition, up to offset", marks],
    ]),
    tracking.ackers.length ? table("Ackers", [
      { title: "acker", number: true, cell: (each) => String(each.acker) },
      { title: "in flight", number: true, cell: (each) => sayNumber(each.in_flight) },
      { title: "completed", number: true, cell: (each) => sayNumber(each.completed) },
      { title: "epoch of the ring", number: true, cell: (each) => String(each.epoch) },
    ], tracking.ackers, (each) => `acker ${each.acker}`) : "",
  ];
}

function letters({ failed }, send) {
  if (!failed.length) return h("p", { class: "empty" }, "No record was given up.");
  const columns = [
    { title: "when", cell: (each) => new Date(each.at).toLocaleString() },
    { title: "partition", number: true, cell: (each) => String(each.partition) },
    { title: "offset", number: true, cell: (each) => sayNumber(each.offset) },
    { title: "why", wide: true, cell: (each) => each.reason },
    { title: "content", wide: true, cell: (each) => h("code", { class: "content" }, each.content) },
    { title: "again", cell: (each) => (each.sent_again ? `sent ${new Date(each.sent_again).toLocaleString()}` : sender(each, send)) },
  ];
  const given = columns.filter(({ title }) => title !== "again" || failed.some((each) => each.sent_again || (send && each.may_be_sent)));
  return table(`The newest ${LAST} records that were given up or could not be used, the newest first`, given,
    [...failed].reverse(), (each) => each.letter);
}

function sender(each, send) {
  if (!send || !each.may_be_sent) return "";
  const name = `Send again: partition ${each.partition}, offset ${each.offset}`;
  return h("button", { type: "button", "aria-label": name, onclick: (event) => send(each, event.currentTarget) }, "Send again");
}

function sendAgain(job, each, opener, done) {
  const words = `What partition ${each.partition} holds at offset ${each.offset} is sent to the end of that partition, as a new record. `
    + "What came of it before stays.";
  confirmed("Send again", opener, async () => ({ allowed: true, words }), async () => {
    await post(jobPlace(job, "tracking", "failed", encodeURIComponent(each.letter), "again"), {});
    done();
  });
}
