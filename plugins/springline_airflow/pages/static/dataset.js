// The page of one dataset: one sentence, its neighbours, facts and history; without a path, the newest datasets.

import { datasetUrl, generationUrl, get, query } from "./api.js";
import { h } from "./elements.js";
import { queryValue, frame, poll, showStatus } from "./shell.js";
import { sentence } from "./format.js";
import { morph } from "./morph.js";
import { liveSection } from "./live_section.js";
import { STATES, badge } from "./states.js";
import { actionButtons } from "./actions.js";
import { completion } from "./completion.js";
import { comparisonSection } from "./dataset_comparison.js";
import { rowsSection, schemaSection } from "./dataset_content.js";
import { explanationSection, factsSection, reportSection } from "./dataset_facts.js";
import { picture, relations } from "./dataset_graph.js";
import { nameElements, pageOf } from "./dataset_links.js";
import { datasetTable, listUrl } from "./dataset_list.js";
import { timeline } from "./dataset_timeline.js";
import { keepTimes } from "./relative_time.js";

const RARELY = 9000; // milliseconds between two requests for the neighbours
const SUGGESTIONS = 12;
const NOT_FOUND = 404;
const path = queryValue("path");
const generation = queryValue("generation");
const body = h("div");

async function suggest(text) {
  const { datasets } = JSON.parse(await get(listUrl({ search: text, limit: SUGGESTIONS })));
  return datasets.map((each) => each.path);
}

/** The page of one generation: the parts that are loaded apart stay while the others are renewed. */
function datasetPage() {
  const head = h("div", { class: "headline" });
  const words = h("div");
  const left = h("div");
  const why = h("div");
  const right = h("div");
  const [schema, rows, comparison] = [schemaSection(), rowsSection(), comparisonSection()];
  const parts = h("div", { class: "dataset" }, left,
    h("div", { class: "side" }, right, why), h("div", { class: "contents" }, schema.part, comparison.part, rows.part));
  let current = null;
  let lineage = null;

  function show(dataset) {
    current = dataset;
    document.title = `${dataset.path} · Springline`;
    if (!head.isConnected) body.replaceChildren(head, parts);
    if (!lineage) {
      lineage = liveSection("Lineage", () => generationUrl(current, "lineage"), picture, { head: words, every: RARELY });
      parts.before(lineage.part);
    }
    fill(head, h("h2", { class: "name" }, nameElements(dataset), " ", badge(dataset.status)),
      h("p", { class: "summary" }, dataset.headline), actionButtons(dataset, () => refresh()),
      dataset.under_store_away ? h("p", { class: "wrong", role: "status" }, sentence(dataset.under_store_away)) : "");
    fill(words, relations(dataset));
    fill(left, factsSection(dataset));
    fill(why, explanationSection(dataset), reportSection(dataset));
    fill(right, timeline(dataset));
    schema.renew(dataset);
    rows.renew(dataset);
    comparison.renew(dataset);
  }

  const refresh = poll(() => `${datasetUrl(path)}${query({ generation })}`, show, onError, undefined, true);
}

/** The newest datasets, or those in one state. */
function newestPage() {
  const list = h("div");
  const status = h("select", { onchange: () => refresh() }, h("option", { value: "" }, "any"), STATES.map((state) => h("option", {}, state)));
  body.replaceChildren(h("form", { class: "asked", onsubmit: (event) => event.preventDefault() }, h("label", {}, "State", status)), list);
  const refresh = poll(() => listUrl({ status: status.value }), (answer) => {
    fill(list, h("h2", {}, "Newest datasets"), answer.datasets.length ? datasetTable("Newest datasets", answer) : h("p", { class: "empty" },
      status.value ? "No dataset that you may read is in this state." : "There are no datasets that you may read. They appear here when a DAG run writes them."));
  }, onError, undefined, true);
}

function fill(place, ...content) {
  morph(place, ...content.flat(Infinity).filter(Boolean));
}

/** Say what failed; of a path that is not there, which ones contain it. */
function onError(text, wrong = false, status = 0, outage = {}) {
  showStatus(text, wrong, status, outage);
  if (status === NOT_FOUND && !body.hasChildNodes()) showSimilar();
}

async function showSimilar() {
  const title = "Datasets whose path contains it";
  let answer;
  try {
    answer = JSON.parse(await get(listUrl({ search: path })));
  } catch {
    return; // the page says already what failed
  }
  fill(body, answer.datasets.length ? [h("h2", {}, title), datasetTable(title, answer)] : h("p", { class: "empty" }, "No path that you may read contains it."));
}

frame("dataset");
document.getElementById("main").append(
  h("form", { class: "asked", role: "search", "aria-label": "Datasets" },
    completion("Path", { name: "path", value: path }, suggest, (chosen) => location.assign(pageOf({ path: chosen })), (text) => showStatus(text, true)),
    h("button", { type: "submit" }, "Show")), body);
keepTimes(body);
if (path) datasetPage();
else newestPage();
