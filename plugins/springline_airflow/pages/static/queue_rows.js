// The rows of the queue: costs, score, place under another policy, and on demand the reason of the place.

import { h, s, table } from "./elements.js";
import { formatBytes, formatNumber, formatSeconds } from "./format.js";
import { datasetLink, nameOf } from "./dataset_links.js";
import { methodText } from "./transfers.js";

const BAR = { width: 64, height: 8 };
const LEAST = 0.03; // of a bar, so that it is seen
const WIDE_RANGE = 100; // from which on bars are logarithmic

const short = (value) => formatNumber(Number(value.toPrecision(4)));

/** The lengths of the bars of scores, from 0 to 1: of their share of the greatest; logarithmic over a wide range. */
export function barLengths(scores) {
  const [least, most] = [Math.min(...scores), Math.max(...scores)];
  if (least === most) return scores.map(() => 1);
  const scale = least > 0 && most / least > WIDE_RANGE ? (score) => Math.log(score / least) / Math.log(most / least)
    : (score) => (score - Math.min(0, least)) / (Math.max(most, 0) - Math.min(0, least));
  return scores.map((score) => Math.max(LEAST, scale(score)));
}

/** The move of a row under another policy: `↑3`, `↓2`, or `=`. */
function moveText({ position, what_if: whatIf }) {
  if (!whatIf) return "";
  const up = position - whatIf.position;
  return up > 0 ? `↑${up}` : up < 0 ? `↓${-up}` : "=";
}

/** The reason why a row comes after the one before it, in one sentence. */
function orderReason(row, before) {
  if (!before) return "It is the first of the datasets that you may read.";
  const reason = before.expedited && !row.expedited ? "which was moved to the head of the queue"
    : before.score === row.score ? `whose score is also ${short(row.score)}; equal scores are ordered by name`
      : `whose score ${short(before.score)} is higher than its own, ${short(row.score)}`;
  return `It comes after ${nameOf(before)}, ${reason}.`;
}

/** The reason as a disclosure: one sentence, the place by the other policy, the terms of the score beside those before. */
function reasonOf(row, before, policy) {
  const terms = [...new Set([...Object.keys(row.terms), ...Object.keys(before?.terms ?? {})])];
  const cell = (of, term) => h("td", { class: "number" }, term in of ? short(of[term]) : "");
  return h("details", {}, h("summary", {}, `Why ${row.position === 1 ? "first" : `number ${row.position}`}`), h("div", { class: "opened" },
    h("p", {}, `${capital(row.reason)}. ${orderReason(row, before)}`),
    h("p", {}, `Sent as ${row.method_reason}.`),
    row.what_if && h("p", {}, `By the policy ${policy} it would be number ${row.what_if.position}: ${row.what_if.reason}.`),
    terms.length ? h("table", { class: "terms" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "score term"), h("th", { scope: "col" }, "this"),
        before && h("th", { scope: "col" }, "previous"))),
      h("tbody", {}, terms.map((term) => h("tr", {}, h("th", { scope: "row" }, term), cell(row.terms, term),
        before && cell(before.terms, term))))) : ""));
}

function capital(text) {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

function datasetCell(row, before, policy) {
  const state = [row.expedited && "moved to the head of the queue", row.waits_for.length && `waits for ${row.waits_for.join(", ")}`,
    row.last_error && `last attempt failed: ${row.last_error}`].filter(Boolean).join("; ");
  return [datasetLink(row), state && h("p", { class: "state-of" }, state), reasonOf(row, before, policy)];
}

function scoreCell(row, length) {
  return h("div", { class: "score" }, short(row.score),
    s("svg", { width: BAR.width, height: BAR.height, class: "bar", "aria-hidden": "true" },
      s("rect", { ...BAR, class: "trough" }), s("rect", { width: BAR.width * length, height: BAR.height, class: "filled" })));
}

/** The table of the queue; `whatIf` is the policy that it is compared with, or nothing. */
export function queueTable(rows, whatIf) {
  const earlier = new Map(rows.slice(1).map((row, i) => [row.position, rows[i]]));
  const lengths = barLengths(rows.map((row) => row.score));
  const lengthOf = new Map(rows.map((row, i) => [row.position, lengths[i]]));
  return table("Queue, next first", [
    { title: "#", number: true, cell: (row) => String(row.position) },
    whatIf && { title: `by ${whatIf}`, number: true, cell: (row) => row.what_if && [`${row.what_if.position} `, moveBadge(row)] },
    { title: "dataset", wide: true, cell: (row) => datasetCell(row, earlier.get(row.position), whatIf) },
    { title: "size", number: true, cell: (row) => formatBytes(row.bytes) },
    { title: "to recompute", number: true, cell: (row) => (row.irrecoverable ? "never" : formatSeconds(row.recompute_seconds)) },
    { title: "to persist", number: true, cell: (row) => formatSeconds(row.predicted_seconds) },
    { title: "done in", number: true, cell: (row) => formatSeconds(row.completes_in) },
    { title: "waiting", number: true, cell: (row) => formatSeconds(Math.round(row.waited_seconds)) },
    { title: "score", number: true, cell: (row) => scoreCell(row, lengthOf.get(row.position)) },
    { title: "method", narrow: true, cell: (row) => h("span", { class: "short" }, methodText(row.method)) },
  ].filter(Boolean), rows, nameOf);
}

function moveBadge(row) {
  const text = moveText(row);
  return h("span", { class: text.startsWith("↑") ? "move up" : text.startsWith("↓") ? "move down" : "move" }, text);
}
