// The lineage: templates in layers with the states of their partitions, and what would bring a generation back.

import { get, query } from "./api.js";
import { openBackfill } from "./backfill.js";
import { emptyState, h, table, write } from "./elements.js";
import { formatBytes, formatCount } from "./format.js";
import { makeBoard, newestState, risk } from "./lineage_board.js";
import { makeDays } from "./lineage_days.js";
import { makeFilters } from "./lineage_filters.js";
import { cellPanel, emptyPanel, recoverAll } from "./lineage_panel.js";
import { STATE_OF, describeStates } from "./lineage_strip.js";
import { morph } from "./morph.js";
import { frame, poll, queryValue, showStatus } from "./shell.js";
import { badge } from "./states.js";

let picture = { nodes: [], streams: [], edges: [], partitions: [], broken: [], overall: "" };
let selected = { key: queryValue("template"), partition: queryValue("partition") };
let expanded = new URLSearchParams(location.search).getAll("expand");
let asList = false;
let cell = null; // what is shown in the panel

const filters = makeFilters(reload);
const board = makeBoard({ select: (key, column) => select(key, picture.partitions[column] ?? ""), expand });
const days = makeDays((column) => select(selected.key, picture.partitions[column] ?? ""));
const count = h("p", { class: "count", role: "status" });
const alarm = h("div", { class: "alarm" });
const panel = h("aside", { class: "panel", "aria-label": "Selected dataset", hidden: true, tabindex: -1 });
const list = h("div", { hidden: true });
const search = h("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: find, onkeydown: (event) => {
  if (event.key === "Enter") goTo(); // a handler that returned false would keep Tab from leaving the field
} });

/** The address of a page or a route with the filter, the expanded groups, and `more`. */
function address(more = {}) {
  const parameters = new URLSearchParams(query({ ...filters.values(), ...more }));
  for (const key of expanded) parameters.append("expand", key);
  const text = parameters.toString();
  return text ? `lineage?${text}` : "lineage";
}

function remember() {
  history.replaceState(null, "", address({ template: selected.key, partition: selected.partition }));
}

function reload() {
  remember();
  refresh();
}

function expand(key) {
  expanded = [...expanded, key];
  reload();
}

/** Select a template, a partition, or both; an empty text selects none. */
function select(key, partition) {
  selected = { key, partition };
  remember();
  mark();
  showCell();
}

function mark() {
  const column = picture.partitions.indexOf(selected.partition);
  board.mark(column);
  days.mark(column);
  board.choose(selected.key);
}

const brokenOf = (partition) => picture.broken.find((each) => each.partition === partition);

/** Request the selected generation, and show it with the chain that would bring it back. */
async function showCell() {
  const node = picture.nodes.find((each) => each.key === selected.key);
  const { key, partition } = selected;
  if (!key || node?.is_group) {
    close();
    return;
  }
  const shownPartition = partition || node?.newest?.partition || "";
  let content;
  try {
    cell = JSON.parse(await get(`lineage/cell${query({ template: key, partition: shownPartition })}`));
    content = cellPanel(cell, brokenOf(cell.partition), refresh);
  } catch (error) {
    cell = null;
    content = node && error.status === 404 ? emptyPanel(node, shownPartition, refresh) : h("p", { class: "wrong" }, error.message);
  }
  if (key !== selected.key || partition !== selected.partition) return; // another one was chosen meanwhile
  panel.hidden = false;
  document.body.classList.add("beside");
  morph(panel, h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => { select("", selected.partition); board.focus(key); } }, "✕"),
    ...[content].flat(Infinity).filter(Boolean));
  const chain = (cell?.chain ?? []).map((step) => step.template).filter(Boolean);
  board.light(chain.length ? new Set([key, ...chain]) : null);
  board.reveal(key);
  if (cell) uncover(cell.dag_id, cell.operation);
}

/** Expand the group in which the selected template is collapsed. */
function uncover(dagId, operation) {
  if (!selected.key || picture.nodes.some((node) => node.key === selected.key)) return;
  const key = picture.grouping === "dag" ? `dag:${dagId}` : `stage:${dagId}:${operation}`;
  if (picture.nodes.some((node) => node.key === key)) expand(key);
}

function close() {
  cell = null;
  panel.hidden = true;
  document.body.classList.remove("beside");
  board.light(null);
}

/** What is broken, with the way to bring it back. */
function alarms() {
  const lost = picture.broken.reduce((sum, each) => sum + each.lost, 0);
  const gone = picture.broken.reduce((sum, each) => sum + each.irrecoverable, 0);
  if (!lost && !gone) return "";
  const what = [lost && formatCount(lost, "lost dataset"), gone && formatCount(gone, "irrecoverable dataset")].filter(Boolean).join(", ");
  const dags = [...new Set(picture.broken.flatMap((each) => each.dag_ids))];
  const partitions = picture.broken.map((each) => each.partition);
  const more = picture.broken_count - picture.broken.length;
  return [
    h("p", {}, h("strong", {}, what), ` in ${formatCount(picture.broken_count, "partition")}: `,
      picture.broken.slice(0, 8).map((each, i) => [i ? " " : "", h("button", {
        type: "button", class: "chip", onclick: () => { select(each.template, each.partition); board.focus(each.template); },
      }, badge(each.irrecoverable ? "irrecoverable" : "lost"), ` ${each.partition || each.template}`)]),
      picture.broken.length > 8 || more > 0 ? ` and ${picture.broken_count - Math.min(8, picture.broken.length)} more` : ""),
    h("p", { class: "buttons" },
      lost > 0 && h("button", { type: "button", class: "primary", onclick: (event) => recoverAll(partitions, event.currentTarget, refresh) }, lost > 1 ? `Recover all ${lost} lost` : "Recover it"),
      dags.length === 1 && dags[0] && partitions.every((each) => /^\d{4}-\d\d-\d\d/.test(each))
        && h("button", { type: "button", onclick: (event) => openBackfill(dags[0], partitions, event.currentTarget, refresh) }, partitions.length > 1 ? "Backfill these days" : "Backfill this day")),
  ];
}

function show(answer) {
  picture = answer;
  const fold = { none: "", stage: ", grouped by operation", dag: ", grouped by DAG" }[picture.grouping];
  write(count, picture.templates ? `${formatCount(picture.templates, "template")}, ${formatCount(picture.datasets, "dataset")}${fold}` : "");
  morph(alarm, ...[alarms()].flat(Infinity).filter(Boolean));
  alarm.hidden = !picture.broken_count;
  board.show(picture);
  days.show(picture);
  mark();
  find();
  const isEmpty = picture.nodes.length + picture.streams.length === 0;
  morph(nothing, ...(isEmpty ? [emptiness()] : []));
  board.element.hidden = asList || isEmpty;
  morph(collapsers, ...expanded.map((key) => h("button", { type: "button", class: "chip", onclick: () => {
    expanded = expanded.filter((each) => each !== key);
    reload();
  } }, `Collapse ${key === "*" ? "all" : key.replace(/^\w+:/, "")}`)));
  if (selected.key) showCell();
}

function emptiness() {
  return filters.isEmpty() ? emptyState("There are no datasets that you may read.", "They appear here while a DAG run creates them.")
    : emptyState("No dataset that you may read matches the filter.", h("button", { type: "button", onclick: () => {
      filters.clear();
      reload();
    } }, "Clear the filter"));
}

function showList() {
  const state = (node) => (selected.partition ? STATE_OF[node.strip[picture.partitions.indexOf(selected.partition)]] : newestState(node));
  morph(list, table("Templates", [
    { title: "template", wide: true, cell: (node) => h("button", { type: "button", class: "link", onclick: () => (node.is_group ? expand(node.key) : select(node.key, selected.partition)) }, node.label) },
    { title: selected.partition || "newest", cell: (node) => (state(node) ? badge(state(node)) : "none") },
    { title: "states", cell: (node) => describeStates(node.states) }, { title: "at risk", cell: risk },
    { title: "newest size", number: true, cell: (node) => (node.newest ? formatBytes(node.newest.bytes) : "") },
    { title: "operation", cell: (node) => node.operation }, { title: "DAG", cell: (node) => node.dag_id },
  ], picture.nodes.filter(fits), (node) => node.key));
}

function fits(node) {
  return [node.label, node.operation, node.dag_id, node.task_id].join("\n").toLowerCase().includes(search.value.trim().toLowerCase());
}

/** Dim what does not contain the searched text. */
function find() {
  board.dim(fits);
  if (asList) showList();
}

function goTo() {
  const node = [...picture.nodes, ...picture.streams].find(fits);
  if (node) board.focus(node.key);
}

const button = (title, label, onclick) => h("button", { type: "button", "aria-label": label, title: label, onclick }, title);
const nothing = h("div");
const collapsers = h("span", { class: "buttons" });
frame("lineage");
document.getElementById("main").append(
  filters.form,
  h("div", { class: "toolbar" }, h("label", {}, "Search", search), count, collapsers, h("span", { class: "buttons" },
    button("+", "Zoom in", () => board.zoom(1.25)), button("−", "Zoom out", () => board.zoom(0.8)), button("⤢", "Fit", () => board.zoom(0)),
    h("button", { type: "button", "aria-pressed": "false", onclick: (event) => {
      asList = !asList;
      event.currentTarget.setAttribute("aria-pressed", String(asList));
      list.hidden = !asList;
      show(picture);
    } }, "As a table"))),
  alarm, days.element, h("div", { class: "stage" }, h("div", { class: "picture" }, board.element, list, nothing), panel),
  h("p", { class: "legend" }, Object.values(STATE_OF).filter((state) => state && state !== "missing").map((state) => [badge(state), "  "]),
    " Arrow keys move between templates, and between partitions in the strip above."));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || panel.hidden || document.querySelector("dialog[open]")) return;
  const { key, partition } = selected;
  select("", partition); // the day stays selected
  board.focus(key);
});
/** Select the dataset whose path is in the address. */
async function openPath() {
  try {
    const { template, partition } = JSON.parse(await get(`lineage/cell${query({ path: queryValue("path") })}`));
    select(template, partition);
  } catch (error) {
    showStatus(error.message, true, error.status);
  }
}

const refresh = poll(address, show);
if (queryValue("path")) openPath();
