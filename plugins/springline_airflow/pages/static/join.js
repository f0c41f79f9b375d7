// A join: load of each unit against its limit, heavy keys and what was done, migrations, the decision at this moment.

import { jobUrl } from "./api.js";
import { h, s, table, tiles, timeElement } from "./elements.js";
import { keySearch } from "./join_key.js";
import { liveSection } from "./live_section.js";
import { morph } from "./morph.js";
import { patch } from "./plot.js";
import { formatCount, formatNumber, formatShare } from "./format.js";

const SHOWN = 10; // rows of a table
const FIRST = 2; // reasons of a decision that are shown at once
const DONE = { // with a heavy key, on the units that store its new tuples
  hash: () => "nothing yet: stored by its hash",
  pinned: (units) => `pinned to unit ${units.join(", ")}`,
  split: (units) => `split over ${units.length} units`,
};

/** The sections of a job's page. */
export function joinPart(job) {
  const search = keySearch(job);
  const decisions = h("section", { "aria-label": "Decisions" });
  const { part } = liveSection("Join", () => jobUrl(job, "join"), (status) => {
    search.describe(status.key_columns);
    morph(decisions, h("h2", {}, "Decisions"), ...[now(status), placed(status), past(status)].flat(Infinity).filter(Boolean));
    return [summary(status), loads(status), heavy(status, search), moves(status)];
  });
  return [part, search.part, decisions];
}

function summary(status) {
  const requestedText = status.requested_units === status.units ? "" : `, ${status.requested_units} requested`;
  return tiles([
    ["imbalance", `${formatShare(status.imbalance)} of the mean (limit ${formatShare(status.max_imbalance)})`],
    ["units", `${status.units}${requestedText}`], ["strategy", status.strategy],
    ["messages per tuple", status.messages_per_tuple === null ? "" : status.messages_per_tuple.toFixed(2)],
    ["routing table", `epoch ${status.routing.epoch}`], ["measured", timeElement(status.observed_at)],
  ]);
}

/** The greatest load of a unit within the limit; 0 if nothing is stored. */
function limitOf({ loads, max_imbalance: maxImbalance }) {
  const used = loads.filter((load) => load.used);
  return used.length ? ((1 + maxImbalance) * used.reduce((sum, load) => sum + load.stored, 0)) / used.length : 0;
}

/** The load of each unit in use as a bar against the limit. */
function loads(status) {
  const shown = status.loads.filter((load) => load.used || load.stored);
  const limit = Math.round(limitOf(status));
  if (!shown.length) return "";
  const over = shown.filter((load) => load.stored > limit).map((load) => load.unit);
  const most = Math.max(limit, ...shown.map((load) => load.stored), 1);
  const share = (tuples) => (100 * tuples) / most;
  const bar = (load) => s("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", class: "chart load-bar", "aria-hidden": "true" },
    s("rect", { width: share(load.left), height: 12, class: "left" }),
    s("rect", { x: share(load.left), width: share(load.right), height: 12, class: "right" }),
    s("line", { x1: share(limit), x2: share(limit), y1: 0, y2: 12, class: "limit" }));
  const limitText = `The limit is ${formatCount(limit, "tuple")} a unit`;
  return [
    h("p", { class: "slowest" }, over.length ? [`${limitText}: `, h("strong", {}, `${over.length === 1 ? "unit" : "units"} ${over.join(", ")} ${over.length === 1 ? "is" : "are"} over it`), "."] : `${limitText}; no unit is over it.`),
    table("Load of each unit", [
      { title: "unit", narrow: true, cell: (load) => `unit ${load.unit}` },
      { title: "tuples, the line is the limit", wide: true, cell: bar },
      { title: "left", number: true, cell: (load) => formatNumber(load.left) },
      { title: "right", number: true, cell: (load) => formatNumber(load.right) },
      { title: "stored", number: true, cell: (load) => formatNumber(load.stored) },
      { title: "of the limit", number: true, cell: (load) => (limit ? formatShare(load.stored / limit) : "") },
      { title: "", narrow: true, cell: (load) => [!load.used && "being removed", load.stored > limit && "over the limit"].filter(Boolean).join(", ") },
    ], shown, (load) => `unit ${load.unit}`),
    h("p", { class: "legend" }, patch("left"), " left  ", patch("right"), " right"),
  ];
}

function storingUnits(key, entries) {
  const entry = entries.find((each) => each.side === key.side && each.key === key.key);
  return Object.keys(entry ? entry.stores : key.parts);
}

function heavy({ heavy_keys: keys, max_imbalance: limit, routing }, search) {
  if (!keys.length) return h("p", {}, `No key is heavy: none has more tuples than ${formatShare(limit)} of a unit's mean load (max_imbalance).`);
  return [h("h3", {}, "Heavy keys"), table("Heavy keys, heaviest first", [
    { title: "key", cell: (each) => h("button", { type: "button", class: "small", onclick: () => search.show(each.key) }, each.key) },
    { title: "side", narrow: true, cell: (each) => each.side },
    { title: "tuples", number: true, cell: (each) => formatNumber(each.tuples) },
    { title: "of a unit's mean load", number: true, cell: (each) => formatShare(each.share) },
    { title: "probes", number: true, cell: (each) => formatNumber(each.probes) },
    { title: "what was done", cell: (each) => DONE[each.placement](storingUnits(each, routing.entries)) },
    { title: "tuples on units", cell: (each) => Object.entries(each.parts).map(([unit, tuples]) => `${unit}: ${formatNumber(tuples)}`).join(", ") },
  ], keys.slice(0, SHOWN), (each) => `${each.side} ${each.key}`), keys.length > SHOWN && h("p", { class: "faint" }, `And ${formatCount(keys.length - SHOWN, "key")} more.`)];
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
  return h("div", {}, h("h3", {}, title), h("ul", {}, lines.map((each) => h("li", {}, each))));
}

function now(status) {
  return h("div", { class: "pair" }, reasons("Last decision", status.reasons), reasons("Next steps", status.next_reasons));
}

/** The migrations in progress, and how much of them is done; then what is planned. */
function moves(status) {
  const { migrations, planned_moves: planned, moving_tuples: all, moved_tuples: done } = status;
  const cost = { title: "cost", number: true, cell: (each) => formatNumber(each.cost) };
  const tuples = { title: "tuples", number: true, cell: (each) => formatNumber(each.tuples) };
  const reason = { title: "description", wide: true, cell: (each) => each.description };
  return [
    migrations.length ? [
      h("h3", {}, "Migrations in progress"),
      h("p", {}, h("progress", { max: all || 1, value: done, "aria-label": "Tuples moved" }), ` ${formatNumber(done)} of ${formatCount(all, "tuple")} moved, ${formatCount(migrations.length, "piece")} to go`),
      table("Migrations in progress", [
        { title: "piece", number: true, cell: (each) => String(each.piece) },
        { title: "state", narrow: true, cell: (each) => (each.copying ? "copying" : "waiting") }, tuples, cost, reason,
      ], migrations, (each) => `piece ${each.piece}`),
    ] : "",
    planned.length ? [h("h3", {}, "Planned moves"), table("Planned moves", [{ title: "kind", cell: (each) => each.kind }, tuples, cost, reason], planned)] : "",
  ];
}

/** The first reasons; the others on demand. */
function reasonsInShort(all) {
  if (all.length <= FIRST) return all.join("; ");
  return h("details", { class: "short-list" }, h("summary", {}, `${all.slice(0, FIRST).join("; ")}; and ${formatNumber(all.length - FIRST)} more`), h("ul", {}, all.slice(FIRST).map((each) => h("li", {}, each))));
}

function past({ history }) {
  if (!history.length) return "";
  return [h("h3", {}, "History"), table("Routing tables, newest first", [
    { title: "time", cell: (each) => timeElement(each.created_at) }, { title: "epoch", number: true, cell: (each) => String(each.epoch) },
    { title: "reasons", wide: true, cell: (each) => reasonsInShort(each.reasons) },
  ], history.slice(-SHOWN).reverse(), (each) => `epoch ${each.epoch}`)];
}
