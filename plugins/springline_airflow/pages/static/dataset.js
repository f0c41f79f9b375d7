// Everything about one dataset.

import { placeOf, query } from "./asking.js";
import { facts, h, table } from "./elements.js";
import { asked, frame, live, outward, say } from "./frame.js";
import { sayBytes, saySeconds, sayTime, sentence } from "./saying.js";
import { settle } from "./settling.js";
import { badge } from "./states.js";
import { runAt, wishButtons } from "./wishes.js";

const LOSS = "If the cache were lost now"; // one of the titles of its words
const path = asked("path");
const generation = asked("generation");
const body = h("div");

const link = (each) =>
  h("a", { href: `dataset${query({ path: each.path, generation: each.generation })}` }, `${each.path}@${each.generation}`);

function airflow(told) {
  if (!told.dag_id) return "";
  const dag = `dags/${encodeURIComponent(told.dag_id)}`;
  const run = told.run_id && runAt(told);
  return [outward(dag, told.dag_id), run && [" · ", outward(run, told.run_id)],
    run && told.task_id && [" · ", outward(`${run}/tasks/${encodeURIComponent(told.task_id)}`, told.task_id)]];
}

function took(told) {
  const predicted = told.predicted_seconds === null ? "" : `${saySeconds(told.predicted_seconds)} predicted`;
  const actual = told.actual_seconds === null ? "" : `${saySeconds(told.actual_seconds)} actual`;
  return [told.method, predicted, actual].filter(Boolean).join(", ");
}

function others(title, found) {
  return found.length ? [h("h2", {}, title), table(title, [
    { title: "dataset", wide: true, cell: link }, { title: "state", cell: (each) => badge(each.status) },
    { title: "size", number: true, cell: (each) => sayBytes(each.bytes) },
    { title: "made", cell: (each) => sayTime(each.created_at) },
  ], found, (each) => `${each.path}@${each.generation}`)] : "";
}

/** The paragraphs that explain it; what would have to be done in several steps is a list. */
function words({ words, chain }) {
  const steps = chain.steps.length > 1 && [h("ol", {}, chain.steps.map((step) => h("li", {}, step))),
    h("p", {}, `About ${saySeconds(chain.seconds)} in all.`)];
  return h("div", { class: "words" }, Object.entries(words).map(([title, text]) =>
    [h("h3", {}, title), title === LOSS && steps || h("p", {}, text)]));
}

function show(told) {
  document.title = `${told.path} · Springline`;
  settle(body, ...[
    h("h2", { class: "name" }, `${told.path}@${told.generation} `, badge(told.status)),
    wishButtons(told, () => again()),
    told.under_store_away ? h("p", { class: "summary wrong", role: "status" }, sentence(told.under_store_away)) : "",
    words(told),
    h("h2", {}, "Facts"), facts([
      ["size", sayBytes(told.bytes)], ["rows", told.rows === null ? "" : told.rows.toLocaleString("en")],
      ["made by", told.operation ? `${told.operation} (version ${told.version})` : "no recorded operation"],
      ["with", Object.entries(told.params).map(([name, value]) => `${name}=${value}`).join(", ")],
      ["in", airflow(told)], ["took", told.made_seconds === null ? "" : saySeconds(told.made_seconds)],
      ["strategy", told.strategy], ["persisted as", took(told)], ["tries", told.attempts || ""], ["last error", told.error],
      ["read", `${told.reads} times${told.last_read_at ? `, last ${sayTime(told.last_read_at)}` : ""}`],
      ["checkpoint", told.checkpoint ? "yes" : ""], ["pinned", told.pinned ? "yes" : ""],
      ["superseded", told.superseded ? "by a newer generation" : ""],
      ["digest of the rows", told.digest], ["checksum of the files", told.checksum],
      ["checksum in the under-store", told.under_checksum],
    ]),
    others("Generations", told.generations), others("Made from", told.sources),
    others("Made from it", told.dependents),
    told.hidden ? h("p", {}, `${told.hidden} more belong to DAGs that you may not read.`) : "",
    h("h2", {}, "What happened to it"), table("What happened to it", [
      { title: "when", cell: (each) => sayTime(each.at) }, { title: "what", cell: (each) => each.event },
      { title: "cache", cell: (each) => each.cache }, { title: "under-store", cell: (each) => each.under_store },
      { title: "who", cell: (each) => each.who }, { title: "why", cell: (each) => each.why },
    ], told.history),
    told.report ? [h("h2", {}, "Quality report"), h("pre", { class: "scroll", tabindex: 0 }, JSON.stringify(told.report, null, 2))] : "",
  ].flat(Infinity).filter(Boolean));
}

/** The newest datasets, for who has not said yet which one is meant. */
function showNewest({ nodes }) {
  const found = nodes.filter((node) => node.kind === "dataset");
  settle(body, found.length ? table("Among the newest datasets", [
    { title: "dataset", wide: true, cell: (node) => link({ path: node.key, generation: node.generation }) },
    { title: "state", cell: (node) => Object.keys(node.states).map(badge) },
    { title: "size", number: true, cell: (node) => sayBytes(node.bytes) },
    { title: "operation", cell: (node) => node.operation }, { title: "DAG run", cell: (node) => node.run_id },
  ], found, (node) => node.key) : h("p", { class: "empty" }, "No datasets yet that you may read."));
}

frame("dataset");
const wanted = h("input", { type: "search", name: "path", value: path, autocomplete: "off", spellcheck: "false" });
document.getElementById("main").append(
  h("form", { class: "asked", role: "search" }, h("label", {}, "Path", wanted), h("button", { type: "submit" }, "Show")), body);
let again = () => {};
say("asking …");
again = path ? live(() => `${placeOf(path)}${query({ generation })}`, show)
  : live(() => `lineage${query({ fold: "none", most: 50 })}`, showNewest);
