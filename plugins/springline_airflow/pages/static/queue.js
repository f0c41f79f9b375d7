// The queue: what is persisted next and why, and what another policy would do.

import { query } from "./asking.js";
import { h, table } from "./elements.js";
import { asked, frame, live, say } from "./frame.js";
import { counted, sayBytes, saySeconds, sentence } from "./saying.js";
import { settle } from "./settling.js";

const option = (name) => h("option", { value: name, selected: name === asked("policy") }, name || "the policy in use");
const policy = h("select", { onchange: reload }, [...new Set(["", asked("policy")])].map(option));
const count = h("p", { class: "count", role: "status" });
const rows = h("div");

function reload() {
  history.replaceState(null, "", `queue${query({ policy: policy.value })}`);
  again();
}

/** Let the installed policies be chosen; those that are offered already stay as they are. */
function offer(names) {
  const offered = new Set([...policy.options].map((each) => each.value));
  policy.append(...names.filter((each) => !offered.has(each)).map(option));
}

const name = (row) => `${row.path}@${row.generation}`;
const short = (value) => String(Number(value.toPrecision(4)));

/** Why a row comes after the one before it, in one sentence. */
function behind(row, before) {
  if (!before) return "It is the first: nothing that you may read comes before it.";
  const reason = before.head && !row.head ? "which was put at the head of the queue"
    : before.score === row.score ? `whose score is the same, ${short(row.score)}: the name decides`
      : `whose score is ${short(before.score)}; its own is ${short(row.score)}`;
  return `It comes after ${name(before)}, ${reason}.`;
}

/** The reason, which opens: what the score is made of, beside that of the row before. */
function why(row, before) {
  const every = [...new Set([...Object.keys(row.terms), ...Object.keys(before?.terms ?? {})])];
  const cell = (terms, term) => h("td", { class: "number" }, term in terms ? short(terms[term]) : "");
  return h("details", {}, h("summary", {}, row.why), h("div", { class: "opened" },
    h("p", {}, behind(row, before)),
    every.length ? h("table", { class: "terms" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "of the score"), h("th", { scope: "col" }, "here"),
        before && h("th", { scope: "col" }, "the one before"))),
      h("tbody", {}, every.map((term) => h("tr", {}, h("th", { scope: "row" }, term), cell(row.terms, term),
        before && cell(before.terms, term))))) : ""));
}

function state(row) {
  const waits = row.waits_for.length ? `waits for ${row.waits_for.join(", ")}` : "";
  return [row.head && "at the head of the queue", waits, row.last_error && `last try: ${row.last_error}`]
    .filter(Boolean).join("; ");
}

function show(answer) {
  offer(answer.policies);
  const what = answer.applied ? `in use: ${answer.policy}` : `what if it were ${answer.policy}; nothing is changed`;
  const earlier = new Map(answer.waiting.slice(1).map((row, i) => [row.turn, answer.waiting[i]]));
  const away = answer.under_store_away && `${sentence(answer.under_store_away)} Nothing can be sent`;
  const since = answer.oldest_seconds === null ? "" : `the oldest has waited ${saySeconds(Math.round(answer.oldest_seconds))}`;
  const waits = [since, answer.because].filter(Boolean).join(": ");
  settle(count, [`${counted(answer.depth, "dataset")} in the queue`, what, waits, away].filter(Boolean).join("; "));
  count.classList.toggle("wrong", Boolean(away));
  if (!answer.waiting.length) {
    settle(rows, h("p", { class: "empty" }, "Nothing that you may read waits to be persisted."));
    return;
  }
  settle(rows, table("What is persisted next", [
    { title: "turn", number: true, cell: (row) => String(row.turn) },
    { title: "dataset", wide: true, cell: (row) =>
      h("a", { href: `dataset${query({ path: row.path, generation: row.generation })}` }, name(row)) },
    { title: "size", number: true, cell: (row) => sayBytes(row.bytes) },
    { title: "priority", number: true, cell: (row) => short(row.score) },
    { title: "why", cell: (row) => why(row, earlier.get(row.turn)) },
    { title: "as", cell: (row) => h("span", { class: "short", title: row.how }, row.method === "operation" ? "ƒ operation" : "≡ data") },
    { title: "takes", number: true, cell: (row) => saySeconds(row.predicted_seconds) },
    { title: "through in", number: true, cell: (row) => saySeconds(row.through_in) },
    { title: "has waited", number: true, cell: (row) => saySeconds(Math.round(row.waited_seconds)) },
    { title: "now", cell: state },
  ], answer.waiting, name));
}

frame("queue");
document.getElementById("main").append(
  h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "What if the policy were", policy)),
  count, rows);
say("asking …");
const again = live(() => `queue${query({ policy: policy.value, most: 50 })}`, show);
