// The page of one dataset.

import { datasetUrl, query } from "./api.js";
import { facts, h, table } from "./elements.js";
import { queryValue, frame, poll, airflowLink, showStatus } from "./shell.js";
import { formatBytes, formatSeconds, formatTime, sentence } from "./format.js";
import { morph } from "./morph.js";
import { badge } from "./states.js";
import { runUrl, actionButtons } from "./actions.js";

const LOSS = "If the cache were lost now"; // title of a paragraph
const path = queryValue("path");
const generation = queryValue("generation");
const body = h("div");

const link = (each) =>
  h("a", { href: `dataset${query({ path: each.path, generation: each.generation })}` }, `${each.path}@${each.generation}`);

function airflow(dataset) {
  if (!dataset.dag_id) return "";
  const dag = `dags/${encodeURIComponent(dataset.dag_id)}`;
  const run = dataset.run_id && runUrl(dataset);
  return [airflowLink(dag, dataset.dag_id), run && [" · ", airflowLink(run, dataset.run_id)],
    run && dataset.task_id && [" · ", airflowLink(`${run}/tasks/${encodeURIComponent(dataset.task_id)}`, dataset.task_id)]];
}

function persistedAs(dataset) {
  const predicted = dataset.predicted_seconds === null ? "" : `${formatSeconds(dataset.predicted_seconds)} predicted`;
  const actual = dataset.actual_seconds === null ? "" : `${formatSeconds(dataset.actual_seconds)} actual`;
  return [dataset.method, predicted, actual].filter(Boolean).join(", ");
}

function others(title, datasets) {
  return datasets.length ? [h("h2", {}, title), table(title, [
    { title: "dataset", wide: true, cell: link }, { title: "state", cell: (each) => badge(each.status) },
    { title: "size", number: true, cell: (each) => formatBytes(each.bytes) },
    { title: "created", cell: (each) => formatTime(each.created_at) },
  ], datasets, (each) => `${each.path}@${each.generation}`)] : "";
}

/** The paragraphs of the explanation; several steps are a list. */
function explanation({ paragraphs, chain }) {
  const steps = chain.steps.length > 1 && [h("ol", {}, chain.steps.map((step) => h("li", {}, step))),
    h("p", {}, `About ${formatSeconds(chain.seconds)} in total.`)];
  return h("div", { class: "words" }, Object.entries(paragraphs).map(([title, text]) =>
    [h("h3", {}, title), title === LOSS && steps || h("p", {}, text)]));
}

function show(dataset) {
  document.title = `${dataset.path} · Springline`;
  morph(body, ...[
    h("h2", { class: "name" }, `${dataset.path}@${dataset.generation} `, badge(dataset.status)),
    actionButtons(dataset, () => refresh()),
    dataset.under_store_away ? h("p", { class: "summary wrong", role: "status" }, sentence(dataset.under_store_away)) : "",
    explanation(dataset),
    h("h2", {}, "Facts"), facts([
      ["size", formatBytes(dataset.bytes)], ["rows", dataset.rows === null ? "" : dataset.rows.toLocaleString("en")],
      ["operation", dataset.operation ? `${dataset.operation} (version ${dataset.version})` : "none recorded"],
      ["parameters", Object.entries(dataset.params).map(([name, value]) => `${name}=${value}`).join(", ")],
      ["DAG run", airflow(dataset)], ["duration", dataset.compute_seconds === null ? "" : formatSeconds(dataset.compute_seconds)],
      ["strategy", dataset.strategy], ["persisted as", persistedAs(dataset)], ["attempts", dataset.attempts || ""], ["last error", dataset.error],
      ["reads", `${dataset.reads}${dataset.last_read_at ? `, last ${formatTime(dataset.last_read_at)}` : ""}`],
      ["checkpoint", dataset.checkpoint ? "yes" : ""], ["pinned", dataset.pinned ? "yes" : ""],
      ["superseded", dataset.superseded ? "by a newer generation" : ""],
      ["digest of the rows", dataset.digest], ["checksum of the files", dataset.checksum],
      ["checksum in the under-store", dataset.under_checksum],
    ]),
    others("Generations", dataset.generations), others("Sources", dataset.sources),
    others("Dependents", dataset.dependents),
    dataset.hidden ? h("p", {}, `${dataset.hidden} more belong to DAGs that you may not read.`) : "",
    h("h2", {}, "History"), table("History", [
      { title: "time", cell: (each) => formatTime(each.timestamp) }, { title: "event", cell: (each) => each.event.replace("under_store", "under-store").replaceAll("_", " ") },
      { title: "cache", cell: (each) => each.cache }, { title: "under-store", cell: (each) => each.under_store },
      { title: "actor", cell: (each) => each.actor }, { title: "reason", cell: (each) => each.reason },
    ], dataset.history),
    dataset.report ? [h("h2", {}, "Quality report"), h("pre", { class: "scroll", tabindex: 0 }, JSON.stringify(dataset.report, null, 2))] : "",
  ].flat(Infinity).filter(Boolean));
}

/** The newest datasets, if the address names none. */
function showNewest({ nodes }) {
  const datasets = nodes.filter((node) => node.kind === "dataset");
  morph(body, datasets.length ? table("Newest datasets", [
    { title: "dataset", wide: true, cell: (node) => link({ path: node.key, generation: node.generation }) },
    { title: "state", cell: (node) => Object.keys(node.states).map(badge) },
    { title: "size", number: true, cell: (node) => formatBytes(node.bytes) },
    { title: "operation", cell: (node) => node.operation }, { title: "DAG run", cell: (node) => node.run_id },
  ], datasets, (node) => node.key) : h("p", { class: "empty" }, "There are no datasets that you may read."));
}

frame("dataset");
const pathInput = h("input", { type: "search", name: "path", value: path, autocomplete: "off", spellcheck: "false" });
document.getElementById("main").append(
  h("form", { class: "asked", role: "search" }, h("label", {}, "Path", pathInput), h("button", { type: "submit" }, "Show")), body);
let refresh = () => {};
showStatus("asking …");
refresh = path ? poll(() => `${datasetUrl(path)}${query({ generation })}`, show)
  : poll(() => `lineage${query({ fold: "none", limit: 50 })}`, showNewest);
