// A join: load of each unit and its limit, heavy keys, migrations and their reasons, the decision at this moment.

import { jobUrl } from "./api.js";
import { h, s, table, tiles } from "./elements.js";
import { liveSection } from "./live_section.js";
import { patch } from "./plot.js";
import { formatCount, formatNumber, formatShare, formatTime } from "./format.js";

const WIDTH = 760;
const ROW = 26;
const LEFT = 70;
const RIGHT = 150;
const SHOWN = 10; // rows of a table

/** The part of a job's page. */
export function joinPart(job) {
  return liveSection("Join", () => jobUrl(job, "join"), (status) => [
    summary(status), bars(status), heavy(status), placed(status), now(status), moves(status), past(status),
  ]).part;
}

function summary(status) {
  const requestedText = status.requested_units === status.units ? "" : `, ${status.requested_units} requested`;
  const keys = Object.entries(status.routing.keys).map(([side, count]) => `${side} ${formatNumber(count)}`).join(", ");
  return tiles([
    ["strategy", status.strategy], ["units", `${status.units}${requestedText}`],
    ["imbalance", `${formatShare(status.imbalance)} (limit ${formatShare(status.max_imbalance)})`],
    ["messages per tuple", status.messages_per_tuple === null ? "" : status.messages_per_tuple.toFixed(2)],
    ["routing table", `epoch ${status.routing.epoch}; explicitly routed keys: ${keys}`],
    ["measured", formatTime(status.observed_at)],
  ]);
}

/** The greatest load of a unit within the limit; 0 if nothing is stored. */
function limitOf({ loads, max_imbalance: maxImbalance }) {
  const used = loads.filter((load) => load.used);
  return used.length ? ((1 + maxImbalance) * used.reduce((sum, load) => sum + load.stored, 0)) / used.length : 0;
}

function bars(status) {
  const shown = status.loads.filter((load) => load.used || load.stored);
  const limit = limitOf(status);
  const most = Math.max(limit, ...shown.map((load) => load.stored), 1);
  const x = (tuples) => LEFT + ((WIDTH - LEFT - RIGHT) * tuples) / most;
  const description = shown.map((load) => `unit ${load.unit} stores ${formatCount(load.stored, "tuple")}`).join(", ");
  const height = shown.length * ROW + 34;
  return h("figure", {}, s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart loads", role: "img", "aria-label": `${description}; limit ${formatNumber(Math.round(limit))}` },
    shown.map((load, i) => [
      s("text", { x: LEFT - 10, y: i * ROW + 20, class: "end" }, `unit ${load.unit}`),
      s("rect", { x: LEFT, y: i * ROW + 6, width: x(load.left) - LEFT, height: ROW - 8, class: "left" }),
      s("rect", { x: x(load.left), y: i * ROW + 6, width: x(load.right) - LEFT, height: ROW - 8, class: "right" }),
      s("text", { x: Math.max(x(load.stored), x(limit)) + 8, y: i * ROW + 20 },
        formatNumber(load.stored) + (load.used ? "" : ", being removed") + (load.stored > limit ? ", over the limit" : "")),
    ]),
    s("line", { x1: x(limit), x2: x(limit), y1: 2, y2: shown.length * ROW + 6, class: "limit" }),
    s("text", { x: x(limit), y: height - 12, class: "end" }, `limit ${formatNumber(Math.round(limit))}`)),
  h("figcaption", {}, h("p", { class: "legend" }, patch("left"), " left  ", patch("right"), " right")));
}

function heavy({ heavy_keys: keys }) {
  if (!keys.length) return "";
  return table("Heavy keys, heaviest first", [
    { title: "key", cell: (each) => each.key }, { title: "side", cell: (each) => each.side },
    { title: "tuples", number: true, cell: (each) => formatNumber(each.tuples) },
    { title: "probes", number: true, cell: (each) => formatNumber(each.probes) },
    { title: "on units", wide: true, cell: (each) => Object.entries(each.parts).map(([unit, tuples]) => `${unit}: ${formatNumber(tuples)}`).join(", ") },
  ], keys.slice(0, SHOWN), (each) => `${each.side} ${each.key}`);
}

function placed({ routing }) {
  if (!routing.entries.length) return "";
  const all = routing.keys.left + routing.keys.right;
  const more = all - routing.entries.length;
  return h("details", {}, h("summary", {}, `Explicitly routed keys (${formatNumber(all)})`), table("Explicitly routed keys", [
    { title: "key", cell: (each) => each.key }, { title: "side", cell: (each) => each.side },
    { title: "stored on", wide: true, cell: (each) => Object.entries(each.stores).map(([unit, share]) => `${unit}: ${formatShare(share)}`).join(", ") },
    { title: "probed on", cell: (each) => each.probed_units.join(", ") },
  ], routing.entries, (each) => `${each.side} ${each.key}`), more > 0 && h("p", {}, `And ${formatCount(more, "key")} more.`));
}

function reasons(title, lines) {
  return [h("h3", {}, title), h("ul", {}, lines.map((each) => h("li", {}, each)))];
}

function now(status) {
  return h("div", { class: "words" }, reasons("Last decision", status.reasons), reasons("Next steps", status.next_reasons));
}

function moves(status) {
  const cost = { title: "cost", number: true, cell: (each) => formatNumber(each.cost) };
  const tuples = { title: "tuples", number: true, cell: (each) => formatNumber(each.tuples) };
  const reasonColumn = { title: "description", wide: true, cell: (each) => each.description };
  return [
    status.migrations.length ? table("Migrations in progress", [
      { title: "piece", number: true, cell: (each) => String(each.piece) },
      { title: "state", cell: (each) => (each.copying ? "copying" : "waiting") }, tuples, cost, reasonColumn,
    ], status.migrations, (each) => `piece ${each.piece}`) : "",
    status.planned_moves.length ? table("Planned moves", [{ title: "kind", cell: (each) => each.kind }, tuples, cost, reasonColumn], status.planned_moves) : "",
  ];
}

function past({ history }) {
  if (!history.length) return "";
  return [h("h3", {}, "History"), table("Routing tables, newest first", [
    { title: "time", cell: (each) => formatTime(each.created_at) }, { title: "epoch", number: true, cell: (each) => String(each.epoch) },
    { title: "reasons", wide: true, cell: (each) => each.reasons.join("; ") },
  ], history.slice(-SHOWN).reverse(), (each) => `epoch ${each.epoch}`)];
}
