// The persist queue: what is sent now, what comes next and why, and why a dataset is not persisted.

import { query } from "./api.js";
import { h, tiles } from "./elements.js";
import { queryValue, frame, poll, showStatus } from "./shell.js";
import { formatCount, formatBytes, formatSeconds } from "./format.js";
import { morph } from "./morph.js";
import { notice } from "./notice.js";
import { queueTable } from "./queue_rows.js";
import { retryTable, sendingTable } from "./transfers.js";
import { explainer } from "./explainer.js";

const option = (name) => h("option", { value: name, selected: name === queryValue("what_if") }, name || "nothing");
const whatIf = h("select", { onchange: compare }, [...new Set(["", queryValue("what_if")])].map(option));
const top = h("div");
const lists = h("div");
const why = explainer(() => refresh());

function compare() {
  history.replaceState(null, "", `queue${query({ ...Object.fromEntries(new URLSearchParams(location.search)), what_if: whatIf.value })}`);
  refresh();
}

/** Offer the policies that are not in use. */
function offer(names, used) {
  const offered = new Set([...whatIf.options].map((each) => each.value));
  whatIf.append(...names.filter((each) => each !== used && !offered.has(each)).map(option));
}

/** Why nothing is sent although something is queued: what the reader has to know first; nothing else if all is well. */
function obstacle(answer) {
  if (answer.under_store_away) return `Nothing can be persisted now: ${answer.under_store_away}`;
  if (!answer.depth || answer.sending.length || !answer.wait_reason) return "";
  return `Nothing is being sent: ${answer.wait_reason}`;
}

function numbers(answer) {
  return tiles([
    ["in the queue", formatCount(answer.depth, "dataset")],
    ["to persist", formatBytes(answer.bytes)],
    ["empty in about", answer.under_store_away ? "unknown" : formatSeconds(answer.empty_in)],
    ["oldest waiting for", answer.oldest_seconds === null ? "" : formatSeconds(Math.round(answer.oldest_seconds))],
    ["policy", answer.policy],
  ]);
}

function section(title, ...children) {
  return h("section", { "aria-label": title, "data-key": title }, h("h2", {}, title), children);
}

function show(answer) {
  offer(answer.policies, answer.policy);
  why.suggest([...answer.sending, ...answer.retries, ...answer.entries].map((row) => row.path));
  why.refresh();
  const more = answer.depth - answer.sending.length - answer.retries.length - answer.entries.length;
  morph(top, notice(obstacle(answer)), answer.depth ? numbers(answer) : "");
  morph(lists,
    answer.sending.length ? section("Sent now", sendingTable(answer.sending)) : "",
    answer.retries.length ? section("Failed, and tried again later", retryTable(answer.retries, () => refresh())) : "",
    section("Next",
      answer.entries.length ? queueTable(answer.entries, answer.what_if) : h("p", { class: "empty" }, emptyText(answer)),
      answer.entries.length && more > 0 ? h("p", { class: "count" }, `And ${formatCount(more, "dataset")} more, or that you may not read.`) : ""));
}

function emptyText({ depth, policy }) {
  return depth ? `No dataset that you may read waits for its turn. The policy is ${policy}.`
    : "The queue is empty: everything that is to be persisted is in the under-store.";
}

frame("queue");
const [search, ...answers] = why.parts;
document.getElementById("main").append(top, h("div", { class: "controls" }, search,
  h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "What if: compare with the policy", whatIf))),
...answers, lists);
showStatus("loading …");
const refresh = poll(() => `queue${query({ what_if: whatIf.value, limit: 50 })}`, show);
