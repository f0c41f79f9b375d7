// At risk: what would be lost or have to be made again if the cache were lost now, and how that was before.

import { query } from "./asking.js";
import { chart } from "./chart.js";
import { h, table } from "./elements.js";
import { frame, live, say } from "./frame.js";
import { livePart } from "./parts.js";
import { counted, sayBytes, saySeconds, sentence } from "./saying.js";
import { settle } from "./settling.js";
import { badge } from "./states.js";

const SPANS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"]];
const summary = h("p", { class: "summary", role: "status" });
const rows = h("div");
const span = h("select", { onchange: () => past.again() }, SPANS.map(([seconds, title]) => h("option", { value: seconds }, title)));

/** The risk in one sentence, two while the under-store is away. */
function words(risk) {
  const away = risk.under_store_away && `${sentence(risk.under_store_away)} What it has counts as at risk. `;
  return away + loss(risk);
}

function loss(risk) {
  if (!risk.datasets) return "If the cache were lost now, nothing that you may read would be lost.";
  const gone = risk.irrecoverable_bytes && `${sayBytes(risk.irrecoverable_bytes)} would be gone for good`;
  const unproven = risk.unproven_bytes
    && `${sayBytes(risk.unproven_bytes)} might be gone for good, made by operations that were never seen to repeat`;
  const takes = `in about ${saySeconds(risk.recompute_seconds)}`;
  const again = risk.recomputable_bytes && `${sayBytes(risk.recomputable_bytes)} would have to be made again, ${takes}`;
  const back = unproven ? `making them again would be tried, ${takes}` : "nothing would have to be made again";
  const parts = [gone, unproven, !gone && !unproven && "nothing would be gone for good", again || back];
  return `If the cache were lost now: ${parts.filter(Boolean).join("; ")}.`;
}

function show(risk) {
  settle(summary, words(risk));
  const wrong = risk.irrecoverable_bytes + risk.unproven_bytes > 0 || Boolean(risk.under_store_away);
  summary.classList.toggle("wrong", wrong);
  const more = risk.datasets - risk.exposed.length;
  settle(rows, risk.datasets ? table("Only in the cache, the worst first", [
    { title: "dataset", wide: true, cell: (row) =>
      h("a", { href: `dataset${query({ path: row.path, generation: row.generation })}` }, `${row.path}@${row.generation}`) },
    { title: "after a loss", cell: (row) => badge(row.why_gone.length ? "irrecoverable" : "lost") },
    { title: "size", number: true, cell: (row) => sayBytes(row.bytes) },
    { title: "made again in", number: true, cell: (row) => row.why_gone.length ? "never" : saySeconds(row.seconds) },
    { title: "idempotence of what makes it", cell: (row) =>
      row.why_gone.length ? "" : row.why_unproven.length ? "only declared" : "proven" },
    { title: "why not", cell: (row) => [...row.why_gone, ...row.why_unproven].join("; ") },
    { title: "will be persisted", cell: (row) => row.believed ? "it was; the under-store is away" : row.waits ? "in its turn" : "never" },
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
