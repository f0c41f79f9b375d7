// At risk: what would be lost or recomputed if the cache were lost now, its history, and what would make it safe.

import { query } from "./api.js";
import { riskChart } from "./chart.js";
import { h } from "./elements.js";
import { exposedTable } from "./exposed.js";
import { formatBytes, formatCount, formatSeconds, sentence } from "./format.js";
import { liveSection } from "./live_section.js";
import { morph } from "./morph.js";
import { notice } from "./notice.js";
import { frame, poll, showStatus } from "./shell.js";

const SPANS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"], ["2592000", "the last month"]];
const HISTORY_EVERY = 30_000; // milliseconds; samples are a minute apart
const verdict = h("div");
const curve = h("div");
const list = h("div");
const span = h("select", { onchange: () => past.refresh() }, SPANS.map(([seconds, title]) => h("option", { value: seconds }, title)));
const groups = h("input", { type: "checkbox", onchange: () => showList() });
let risk = null; // the newest answer; the curve ends with it
let history = null;

/** The verdict in one sentence: whether anything can be lost, and how certain that is. */
function verdictOf({ datasets, irrecoverable_bytes: irrecoverable, unproven_bytes: unproven }) {
  if (!datasets) return "Nothing can be lost: every dataset that you may read is in the under-store.";
  if (irrecoverable) return `A loss of the cache now would destroy ${formatBytes(irrecoverable)} for good.`;
  if (unproven) {
    return `Nothing can be lost if operations are idempotent as declared: ${formatBytes(unproven)} rest on declarations that no second run has proven.`;
  }
  return "Nothing can be lost for good: proven operations would recompute everything.";
}

/** The three numbers, in the same words above the curve and at its end. */
function numbersOf({ irrecoverable_bytes: irrecoverable, unproven_bytes: unproven, bytes, recompute_seconds: seconds, unmeasured = 0 }) {
  return [
    ["irrecoverable", formatBytes(irrecoverable), unproven ? `and ${formatBytes(unproven)} more if an operation is not idempotent as declared` : ""],
    ["to be recomputed", formatBytes(bytes - irrecoverable), irrecoverable ? `of ${formatBytes(bytes)} that are only in the cache` : ""],
    ["in about", formatSeconds(seconds), unmeasured ? `not counting ${formatCount(unmeasured, "operation run")} that were never measured` : "one operation after another"],
  ];
}

function showVerdict() {
  const { irrecoverable_bytes: irrecoverable, unproven_bytes: unproven, under_store_away: away, wait_reason: reason, datasets } = risk;
  morph(verdict,
    notice(away && `${sentence(away)} Its copies count as at risk.`), notice(reason && `Nothing is being persisted now: ${reason}`),
    h("p", { class: `summary ${irrecoverable || away ? "wrong" : unproven ? "doubtful" : "safe"}`, role: "status" }, verdictOf(risk)),
    h("dl", { class: "tiles" }, numbersOf(risk).map(([name, value, note]) =>
      h("div", {}, h("dt", {}, name), h("dd", { class: "large" }, value), datasets && note ? h("dd", { class: "faint" }, note) : ""))));
}

function showCurve() {
  if (history) morph(curve, ...riskChart(history, risk));
  return curve;
}

function showList() {
  const { datasets, exposed_datasets: rows, dags } = risk;
  if (!datasets) {
    morph(list);
    return;
  }
  const onDone = () => refresh();
  const parts = groups.checked ? dags.map((dag) => dagPart(dag, rows.filter((row) => row.dag_id === dag.dag_id), onDone))
    : exposedTable("Only in the cache, worst first", rows, onDone);
  const more = datasets - rows.length;
  morph(list, h("section", { "aria-label": "What would make it safe" }, h("h2", {}, `${formatCount(datasets, "dataset")} only in the cache`),
    h("p", { class: "asked" }, h("label", { class: "check" }, groups, "by DAG")), parts,
    more > 0 ? h("p", { class: "count" }, `And ${formatCount(more, "dataset")} more.`) : ""));
}

function dagPart(dag, rows, onDone) {
  const name = dag.dag_id || "without a DAG";
  const irrecoverable = dag.irrecoverable_bytes ? `, ${formatBytes(dag.irrecoverable_bytes)} irrecoverable` : "";
  return h("div", { "data-key": name }, h("h3", { class: "name" }, name),
    h("p", { class: "faint" }, `${formatBytes(dag.bytes)} at risk${irrecoverable}, ${formatSeconds(dag.recompute_seconds)} to recompute`),
    rows.length ? exposedTable(`Only in the cache, by ${name}`, rows, onDone) : "");
}

function show(answer) {
  risk = answer;
  showVerdict();
  showCurve();
  showList();
}

frame("risk");
showStatus("loading …");
const refresh = poll(() => "at-risk", show);
const past = liveSection("Over time", () => `at-risk/history${query({ since: Math.floor(Date.now() / 1000) - Number(span.value) })}`, (answer) => {
  history = answer;
  return showCurve();
}, {
  every: HISTORY_EVERY,
  head: h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Show", span)),
});
document.getElementById("main").append(verdict, past.part, list);
