// At risk: what would be lost or have to be made again if the cache were lost now, and how that was before.

import { query } from "./asking.js";
import { chart } from "./chart.js";
import { h, table } from "./elements.js";
import { frame, live, say } from "./frame.js";
import { livePart } from "./parts.js";
import { counted, sayBytes, saySeconds } from "./saying.js";
import { settle } from "./settling.js";
import { badge } from "./states.js";

const SPANS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"]];
const summary = h("p", { class: "summary", role: "status" });
const rows = h("div");
const span = h("select", { onchange: () => past.again() }, SPANS.map(([seconds, title]) => h("option", { value: seconds }, title)));

/** The risk in one sentence. */
function words(risk) {
  if (!risk.datasets) return "If the cache were lost now, nothing that you may read would be lost.";
  const gone = risk.irrecoverable_bytes ? `${sayBytes(risk.irrecoverable_bytes)} would be gone for good`
    : "nothing would be gone for good";
  const back = risk.recomputable_bytes
    ? `${sayBytes(risk.recomputable_bytes)} would have to be made again, in about ${saySeconds(risk.recompute_seconds)}`
    : "nothing would have to be made again";
  return `If the cache were lost now: ${gone}; ${back}.`;
}

function show(risk) {
  settle(summary, words(risk));
  summary.classList.toggle("wrong", risk.irrecoverable_bytes > 0);
  const more = risk.datasets - risk.exposed.length;
  settle(rows, risk.datasets ? table("Only in the cache, the worst first", [
    { title: "dataset", wide: true, cell: (row) =>
      h("a", { href: `dataset${query({ path: row.path, generation: row.generation })}` }, `${row.path}@${row.generation}`) },
    { title: "after a loss", cell: (row) => badge(row.why_gone.length ? "irrecoverable" : "lost") },
    { title: "size", number: true, cell: (row) => sayBytes(row.bytes) },
    { title: "made again in", number: true, cell: (row) => row.why_gone.length ? "never" : saySeconds(row.seconds) },
    { title: "why not", cell: (row) => row.why_gone.join("; ") },
    { title: "will be persisted", cell: (row) => row.waits ? "in its turn" : "never" },
    { title: "DAG run", cell: (row) => row.run_id },
  ], risk.exposed, (row) => `${row.path}@${row.generation}`) : "", more > 0 ? h("p", {}, `And ${counted(more, "dataset")} more.`) : "");
}

frame("risk");
say("asking …");
live(() => "at-risk", show);
const past = livePart("Over time", () => `at-risk/history${query({ since: Math.floor(Date.now() / 1000) - Number(span.value) })}`, chart, {
  head: h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Show", span)),
});
document.getElementById("main").append(summary, past.part, rows);
