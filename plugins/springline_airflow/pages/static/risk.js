// At risk: what would be lost or recomputed if the cache were lost now, and its history.

import { query } from "./api.js";
import { chart } from "./chart.js";
import { h, table } from "./elements.js";
import { frame, poll, showStatus } from "./shell.js";
import { liveSection } from "./live_section.js";
import { formatCount, formatBytes, formatSeconds, sentence } from "./format.js";
import { morph } from "./morph.js";
import { badge } from "./states.js";

const SPANS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"]];
const summary = h("p", { class: "summary", role: "status" });
const rows = h("div");
const span = h("select", { onchange: () => past.refresh() }, SPANS.map(([seconds, title]) => h("option", { value: seconds }, title)));

/** The risk in one sentence, two while the under-store is away. */
function summarize(risk) {
  const away = risk.under_store_away && `${sentence(risk.under_store_away)} Its copies count as at risk. `;
  return away + loss(risk);
}

function loss(risk) {
  if (!risk.datasets) return "If the cache were lost now, nothing that you may read would be lost.";
  const irrecoverable = risk.irrecoverable_bytes && `${formatBytes(risk.irrecoverable_bytes)} would be irrecoverable`;
  const unproven = risk.unproven_bytes
    && `${formatBytes(risk.unproven_bytes)} might be irrecoverable, made by operations that are not proven idempotent`;
  const takes = `in about ${formatSeconds(risk.recompute_seconds)}`;
  const recompute = risk.recomputable_bytes && `${formatBytes(risk.recomputable_bytes)} would have to be recomputed, ${takes}`;
  const fallback = unproven ? `Springline would try to recompute them, ${takes}` : "nothing would have to be recomputed";
  const parts = [irrecoverable, unproven, !irrecoverable && !unproven && "nothing would be irrecoverable", recompute || fallback];
  return `If the cache were lost now: ${parts.filter(Boolean).join("; ")}.`;
}

function show(risk) {
  morph(summary, summarize(risk));
  const wrong = risk.irrecoverable_bytes + risk.unproven_bytes > 0 || Boolean(risk.under_store_away);
  summary.classList.toggle("wrong", wrong);
  const more = risk.datasets - risk.exposed_datasets.length;
  morph(rows, risk.datasets ? table("Only in the cache, worst first", [
    { title: "dataset", wide: true, cell: (row) =>
      h("a", { href: `dataset${query({ path: row.path, generation: row.generation })}` }, `${row.path}@${row.generation}`) },
    { title: "after a loss", cell: (row) => badge(row.irrecoverable_reasons.length ? "irrecoverable" : "lost") },
    { title: "size", number: true, cell: (row) => formatBytes(row.bytes) },
    { title: "time to recompute", number: true, cell: (row) => row.irrecoverable_reasons.length ? "never" : formatSeconds(row.seconds) },
    { title: "idempotence of its operation", cell: (row) =>
      row.irrecoverable_reasons.length ? "" : row.unproven_reasons.length ? "only declared" : "proven" },
    { title: "obstacles", cell: (row) => [...row.irrecoverable_reasons, ...row.unproven_reasons].join("; ") },
    { title: "queued", cell: (row) => row.is_unreachable_copy ? "persisted; the under-store is unavailable" : row.is_queued ? "yes" : "no" },
    { title: "DAG run", cell: (row) => row.run_id },
  ], risk.exposed_datasets, (row) => `${row.path}@${row.generation}`) : "", more > 0 ? h("p", {}, `And ${formatCount(more, "dataset")} more.`) : "");
}

frame("risk");
showStatus("loading …");
poll(() => "at-risk", show);
const past = liveSection("Over time", () => `at-risk/history${query({ since: Math.floor(Date.now() / 1000) - Number(span.value) })}`, chart, {
  head: h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Show", span)),
});
document.getElementById("main").append(summary, past.part, rows);
