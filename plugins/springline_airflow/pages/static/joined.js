// A join: what each unit holds against what is borne, heavy keys, what moves and why, what would be done now.

import { jobPlace } from "./asking.js";
import { h, s, table, tiles } from "./elements.js";
import { livePart } from "./parts.js";
import { patch } from "./plot.js";
import { counted, sayNumber, sayShare, sayTime } from "./saying.js";

const WIDTH = 760;
const ROW = 26;
const LEFT = 70;
const RIGHT = 150;
const SHOWN = 10; // rows of a table

/** The part of a job's page. */
export function joinPart(job) {
  return livePart("Join", () => jobPlace(job, "join"), (told) => [
    summary(told), bars(told), heavy(told), placed(told), now(told), moves(told), past(told),
  ]).part;
}

function summary(told) {
  const wanted = told.wanted === told.units ? "" : `, ${told.wanted} are wanted`;
  const keys = Object.entries(told.routing.keys).map(([side, count]) => `${side} ${sayNumber(count)}`).join(", ");
  return tiles([
    ["strategy", told.strategy], ["units", `${told.units}${wanted}`],
    ["imbalance", `${sayShare(told.imbalance)}, ${sayShare(told.bound)} is borne`],
    ["messages a tuple", told.messages === null ? "" : told.messages.toFixed(2)],
    ["routing table", `epoch ${told.routing.epoch}; keys with a place of their own: ${keys}`],
    ["looked at", sayTime(told.at)],
  ]);
}

/** The most that a unit may hold within the bound; nothing is stored: 0. */
function limitOf({ loads, bound }) {
  const used = loads.filter((load) => load.used);
  return used.length ? ((1 + bound) * used.reduce((sum, load) => sum + load.stored, 0)) / used.length : 0;
}

function bars(told) {
  const shown = told.loads.filter((load) => load.used || load.stored);
  const limit = limitOf(told);
  const most = Math.max(limit, ...shown.map((load) => load.stored), 1);
  const x = (tuples) => LEFT + ((WIDTH - LEFT - RIGHT) * tuples) / most;
  const words = shown.map((load) => `unit ${load.unit} holds ${counted(load.stored, "tuple")}`).join(", ");
  const height = shown.length * ROW + 34;
  return h("figure", {}, s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart loads", role: "img", "aria-label": `${words}; borne are ${sayNumber(Math.round(limit))}` },
    shown.map((load, i) => [
      s("text", { x: LEFT - 10, y: i * ROW + 20, class: "end" }, `unit ${load.unit}`),
      s("rect", { x: LEFT, y: i * ROW + 6, width: x(load.left) - LEFT, height: ROW - 8, class: "left" }),
      s("rect", { x: x(load.left), y: i * ROW + 6, width: x(load.right) - LEFT, height: ROW - 8, class: "right" }),
      s("text", { x: Math.max(x(load.stored), x(limit)) + 8, y: i * ROW + 20 },
        sayNumber(load.stored) + (load.used ? "" : ", on its way out") + (load.stored > limit ? ", over the limit" : "")),
    ]),
    s("line", { x1: x(limit), x2: x(limit), y1: 2, y2: shown.length * ROW + 6, class: "limit" }),
    s("text", { x: x(limit), y: height - 12, class: "end" }, `borne: ${sayNumber(Math.round(limit))}`)),
  h("figcaption", {}, h("p", { class: "legend" }, patch("left"), " left  ", patch("right"), " right")));
}

function heavy({ heavy: keys }) {
  if (!keys.length) return "";
  return table("Heavy keys, the heaviest first", [
    { title: "key", cell: (each) => each.key }, { title: "side", cell: (each) => each.side },
    { title: "tuples", number: true, cell: (each) => sayNumber(each.tuples) },
    { title: "probes", number: true, cell: (each) => sayNumber(each.probes) },
    { title: "on units", wide: true, cell: (each) => Object.entries(each.parts).map(([unit, tuples]) => `${unit}: ${sayNumber(tuples)}`).join(", ") },
  ], keys.slice(0, SHOWN), (each) => `${each.side} ${each.key}`);
}

function placed({ routing }) {
  if (!routing.entries.length) return "";
  const all = routing.keys.left + routing.keys.right;
  const more = all - routing.entries.length;
  return h("details", {}, h("summary", {}, `${counted(all, "key")} with a place of their own`), table("Keys with a place of their own", [
    { title: "key", cell: (each) => each.key }, { title: "side", cell: (each) => each.side },
    { title: "stored on", wide: true, cell: (each) => Object.entries(each.stores).map(([unit, share]) => `${unit}: ${sayShare(share)}`).join(", ") },
    { title: "probed on", cell: (each) => each.holds.join(", ") },
  ], routing.entries, (each) => `${each.side} ${each.key}`), more > 0 && h("p", {}, `And ${counted(more, "key")} more.`));
}

function reasons(title, words) {
  return [h("h3", {}, title), h("ul", {}, words.map((each) => h("li", {}, each)))];
}

function now(told) {
  return h("div", { class: "words" }, reasons("What was decided at the last look", told.reasons), reasons("What would be done now", told.would));
}

function moves(told) {
  const cost = { title: "cost", number: true, cell: (each) => sayNumber(each.cost) };
  const tuples = { title: "tuples", number: true, cell: (each) => sayNumber(each.tuples) };
  const why = { title: "what and why", wide: true, cell: (each) => each.words };
  return [
    told.under_way.length ? table("On their way to another unit", [
      { title: "piece", number: true, cell: (each) => String(each.piece) },
      { title: "state", cell: (each) => (each.copying ? "being copied" : "waits") }, tuples, cost, why,
    ], told.under_way, (each) => `piece ${each.piece}`) : "",
    told.moves.length ? table("Moves that this would be", [{ title: "kind", cell: (each) => each.kind }, tuples, cost, why], told.moves) : "",
  ];
}

function past({ history }) {
  if (!history.length) return "";
  return [h("h3", {}, "What was done, and why"), table("The newest routing tables, the newest first", [
    { title: "when", cell: (each) => sayTime(each.at) }, { title: "epoch", number: true, cell: (each) => String(each.epoch) },
    { title: "why", wide: true, cell: (each) => each.reasons.join("; ") },
  ], history.slice(-SHOWN).reverse(), (each) => `epoch ${each.epoch}`)];
}
