// The queue: what is persisted next and why, and what another policy would do.

import { query } from "./api.js";
import { h, table } from "./elements.js";
import { queryValue, frame, poll, showStatus } from "./shell.js";
import { formatCount, formatBytes, formatSeconds, sentence } from "./format.js";
import { morph } from "./morph.js";

const option = (name) => h("option", { value: name, selected: name === queryValue("policy") }, name || "the policy in use");
const policy = h("select", { onchange: reload }, [...new Set(["", queryValue("policy")])].map(option));
const count = h("p", { class: "count", role: "status" });
const rows = h("div");

function reload() {
  history.replaceState(null, "", `queue${query({ policy: policy.value })}`);
  refresh();
}

/** Let the installed policies be chosen; those that are offered already stay as they are. */
function offer(names) {
  const offered = new Set([...policy.options].map((each) => each.value));
  policy.append(...names.filter((each) => !offered.has(each)).map(option));
}

const name = (row) => `${row.path}@${row.generation}`;
const short = (value) => String(Number(value.toPrecision(4)));

/** Why a row comes after the one before it, in one sentence. */
function orderReason(row, before) {
  if (!before) return "It is the first: nothing that you may read comes before it.";
  const reason = before.expedited && !row.expedited ? "which was put at the head of the queue"
    : before.score === row.score ? `whose score is the same, ${short(row.score)}: the name decides`
      : `whose score is ${short(before.score)}; its own is ${short(row.score)}`;
  return `It comes after ${name(before)}, ${reason}.`;
}

/** The reason, which opens: what the score is made of, beside that of the row before. */
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
  return [row.expedited && "at the head of the queue", waits, row.last_error && `last try: ${row.last_error}`]
    .filter(Boolean).join("; ");
}

function show(answer) {
  offer(answer.policies);
  const what = answer.applied ? `in use: ${answer.policy}` : `what if it were ${answer.policy}; nothing is changed`;
  const earlier = new Map(answer.entries.slice(1).map((row, i) => [row.turn, answer.entries[i]]));
  const away = answer.under_store_away && `${sentence(answer.under_store_away)} Nothing can be sent`;
  const since = answer.oldest_seconds === null ? "" : `the oldest has waited ${formatSeconds(Math.round(answer.oldest_seconds))}`;
  const waits = [since, answer.wait_reason].filter(Boolean).join(": ");
  morph(count, [`${formatCount(answer.depth, "dataset")} in the queue`, what, waits, away].filter(Boolean).join("; "));
  count.classList.toggle("wrong", Boolean(away));
  if (!answer.entries.length) {
    morph(rows, h("p", { class: "empty" }, "Nothing that you may read waits to be persisted."));
    return;
  }
  morph(rows, table("What is persisted next", [
    { title: "#", number: true, cell: (row) => String(row.turn) },
    { title: "dataset", wide: true, cell: (row) =>
      h("a", { href: `dataset${query({ path: row.path, generation: row.generation })}` }, name(row)) },
    { title: "size", number: true, cell: (row) => formatBytes(row.bytes) },
    { title: "priority", number: true, cell: (row) => short(row.score) },
    { title: "why", cell: (row) => reasonCell(row, earlier.get(row.turn)) },
    { title: "method", cell: (row) => h("span", { class: "short", title: row.method_reason }, row.method === "operation" ? "ƒ operation" : "≡ data") },
    { title: "est. time", number: true, cell: (row) => formatSeconds(row.predicted_seconds) },
    { title: "ETA", number: true, cell: (row) => formatSeconds(row.completes_in) },
    { title: "waiting", number: true, cell: (row) => formatSeconds(Math.round(row.waited_seconds)) },
    { title: "now", cell: state },
  ], answer.entries, name));
}

frame("queue");
document.getElementById("main").append(
  h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "What if the policy were", policy)),
  count, rows);
showStatus("asking …");
const refresh = poll(() => `queue${query({ policy: policy.value, most: 50 })}`, show);
