// The persist queue: its order, the reasons for it, and the order by another policy.

import { query } from "./api.js";
import { h, table } from "./elements.js";
import { queryValue, frame, poll, showStatus } from "./shell.js";
import { formatCount, formatBytes, formatSeconds, sentence } from "./format.js";
import { morph } from "./morph.js";

const option = (name) => h("option", { value: name, selected: name === queryValue("policy") }, name || "policy in use");
const policy = h("select", { onchange: reload }, [...new Set(["", queryValue("policy")])].map(option));
const count = h("p", { class: "count", role: "status" });
const rows = h("div");

function reload() {
  history.replaceState(null, "", `queue${query({ policy: policy.value })}`);
  refresh();
}

/** Offer the installed policies in the select. */
function offer(names) {
  const offered = new Set([...policy.options].map((each) => each.value));
  policy.append(...names.filter((each) => !offered.has(each)).map(option));
}

const name = (row) => `${row.path}@${row.generation}`;
const short = (value) => String(Number(value.toPrecision(4)));

/** The reason why a row comes after the one before it, in one sentence. */
function orderReason(row, before) {
  if (!before) return "It is the first of the datasets that you may read.";
  const reason = before.expedited && !row.expedited ? "which was moved to the head of the queue"
    : before.score === row.score ? `whose score is also ${short(row.score)}; equal scores are ordered by name`
      : `whose score ${short(before.score)} is higher than its own, ${short(row.score)}`;
  return `It comes after ${name(before)}, ${reason}.`;
}

/** The reason as a disclosure: the parts of the score, beside those of the row before. */
function reasonCell(row, before) {
  const every = [...new Set([...Object.keys(row.terms), ...Object.keys(before?.terms ?? {})])];
  const cell = (terms, term) => h("td", { class: "number" }, term in terms ? short(terms[term]) : "");
  return h("details", {}, h("summary", {}, row.reason), h("div", { class: "opened" },
    h("p", {}, orderReason(row, before)),
    every.length ? h("table", { class: "terms" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "score term"), h("th", { scope: "col" }, "this"),
        before && h("th", { scope: "col" }, "previous"))),
      h("tbody", {}, every.map((term) => h("tr", {}, h("th", { scope: "row" }, term), cell(row.terms, term),
        before && cell(before.terms, term))))) : ""));
}

function state(row) {
  const waits = row.waits_for.length ? `waits for ${row.waits_for.join(", ")}` : "";
  return [row.expedited && "at the head of the queue", waits, row.last_error && `last attempt: ${row.last_error}`]
    .filter(Boolean).join("; ");
}

function show(answer) {
  offer(answer.policies);
  const what = answer.applied ? `policy ${answer.policy}` : `simulated: ${answer.policy}`;
  const earlier = new Map(answer.entries.slice(1).map((row, i) => [row.position, answer.entries[i]]));
  const away = answer.under_store_away && `${sentence(answer.under_store_away)} No transfer is possible`;
  const since = answer.oldest_seconds === null ? "" : `the oldest has been queued for ${formatSeconds(Math.round(answer.oldest_seconds))}`;
  const waits = [since, answer.wait_reason].filter(Boolean).join(": ");
  morph(count, [`${formatCount(answer.depth, "dataset")} in the queue`, what, waits, away].filter(Boolean).join("; "));
  count.classList.toggle("wrong", Boolean(away));
  if (!answer.entries.length) {
    morph(rows, h("p", { class: "empty" }, "No dataset that you may read is queued."));
    return;
  }
  morph(rows, table("Queue, next first", [
    { title: "#", number: true, cell: (row) => String(row.position) },
    { title: "dataset", wide: true, cell: (row) =>
      h("a", { href: `dataset${query({ path: row.path, generation: row.generation })}` }, name(row)) },
    { title: "size", number: true, cell: (row) => formatBytes(row.bytes) },
    { title: "score", number: true, cell: (row) => short(row.score) },
    { title: "reason", cell: (row) => reasonCell(row, earlier.get(row.position)) },
    { title: "method", cell: (row) => h("span", { class: "short", title: row.method_reason }, row.method === "operation" ? "ƒ operation" : "≡ data") },
    { title: "est. time", number: true, cell: (row) => formatSeconds(row.predicted_seconds) },
    { title: "ETA", number: true, cell: (row) => formatSeconds(row.completes_in) },
    { title: "waiting", number: true, cell: (row) => formatSeconds(Math.round(row.waited_seconds)) },
    { title: "state", cell: state },
  ], answer.entries, name));
}

frame("queue");
document.getElementById("main").append(
  h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Policy (what-if)", policy)),
  count, rows);
showStatus("loading …");
const refresh = poll(() => `queue${query({ policy: policy.value, limit: 50 })}`, show);
