// Windowed statistics: the queries of a job, the newest results of one as lines, and ad hoc queries.

import { adHocPart } from "./adhoc.js";
import { jobUrl, query } from "./api.js";
import { h, table } from "./elements.js";
import { RARELY, liveSection } from "./live_section.js";
import { rowsTable } from "./rows.js";
import { columnsOf, seriesChart } from "./series.js";
import { morph } from "./morph.js";

const LAST = 400; // rows, the newest
const SHOWN = 20; // of them in the table
const TEXTS = ""; // the choice of all columns that hold no numbers
const NOTHING = "\n"; // no name of a column

/** The sections of a job's page. */
export function windowsParts(job) {
  const place = h("div");
  const adhocSection = adHocPart(job);
  const querySelect = h("select", { onchange: () => results.refresh() });
  let results = null;

  const { part } = liveSection("Queries", () => jobUrl(job, "queries"), ({ queries }) => {
    const before = querySelect.value;
    offer(querySelect, queries.map(({ name }) => [name, name]));
    adhocSection.propose(queries);
    if (!queries.length) return h("p", { class: "empty" }, "No query is registered.");
    if (results && querySelect.value !== before) results.refresh();
    if (!results) {
      results = resultsPart(job, querySelect);
      place.append(results.part);
    }
    return table("Registered queries", [
      { title: "query", cell: (each) => each.name }, { title: "SQL", wide: true, cell: (each) => h("code", {}, each.sql) },
      { title: "since version", number: true, cell: (each) => String(each.since) },
    ], queries, (each) => each.name);
  });
  return [part, place, adhocSection.part];
}

function resultsPart(job, querySelect) {
  const value = h("select", { onchange: redraw });
  const by = h("select", { onchange: redraw });
  const drawn = h("div");
  const form = h("form", { class: "asked", onsubmit: (event) => event.preventDefault() },
    h("label", {}, "Query", querySelect), h("label", {}, "Value", value), h("label", {}, "Group by", by));
  let rows = [];

  function redraw() {
    const lines = by.value === TEXTS ? columnsOf(rows).others : by.value === NOTHING ? [] : [by.value];
    morph(drawn, rows.length ? seriesChart(rows, value.value, lines) : "");
  }

  return liveSection("Newest results", () => `${jobUrl(job, "results")}${query({ query: querySelect.value, limit: LAST })}`, (answer) => {
    rows = answer.rows;
    const { numbers, others } = columnsOf(rows);
    const each = (names) => names.map((name) => [name, name]);
    offer(value, each(numbers));
    offer(by, [...(others.length > 1 ? [[TEXTS, others.join(", ")]] : []), ...each(others), [NOTHING, "None"], ...each(numbers)]);
    redraw();
    return rows.length ? h("details", {}, h("summary", {}, "As a table"), rowsTable("Newest rows, newest first", rows.slice(-SHOWN).reverse()))
      : h("p", { class: "empty" }, "There are no results yet.");
  }, { head: [form, drawn], every: RARELY });
}

/** Offer these `[value, title]` in a select; the selection stays if it is still offered. */
function offer(select, choices) {
  const offered = [...select.options].map((option) => option.value);
  if (offered.join("\t") === choices.map(([value]) => value).join("\t")) return;
  const before = select.value;
  select.replaceChildren(...choices.map(([value, title]) => h("option", { value }, title)));
  if (choices.some(([value]) => value === before)) select.value = before;
}
