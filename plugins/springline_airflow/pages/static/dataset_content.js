// What is in the files of a generation: its columns at once, a sample of its rows when a person asks for them.

import { generationUrl, get, query } from "./api.js";
import { h, table } from "./elements.js";
import { formatCount, sentence } from "./format.js";

const FEW = 20; // rows at first
const MANY = 100;

/** The section of the columns; `renew` loads those of another generation, or of another copy. */
export function schemaSection() {
  const body = h("div");
  const title = h("h2", {}, "Columns");
  let shown = "";

  async function renew(dataset) {
    const which = JSON.stringify([dataset.path, dataset.generation, dataset.cache, dataset.under_store]);
    if (which === shown) return;
    shown = which;
    if (absence(dataset)) {
      body.replaceChildren(h("p", { class: "empty" }, absence(dataset)));
      return;
    }
    if (!body.hasChildNodes()) body.replaceChildren(h("p", { class: "empty" }, "loading …"));
    const content = await loaded(generationUrl(dataset, "schema"), schemaContent);
    if (which === shown) body.replaceChildren(...content.flat(Infinity).filter(Boolean));
  }

  return { part: h("section", { "aria-label": "Columns", class: "columns" }, title, body), renew };
}

/** Why no store has the files of a generation; empty if one has. */
function absence({ cache, under_store: under, status }) {
  if (cache === "present" || under === "present") return "";
  if (status === "writing") return "It is still being written.";
  return status === "retired" || status === "abandoned" ? "Its files are deleted." : "No store has its files now; recover it first.";
}

/** What is shown of an answer, or the reason why there is none. */
async function loaded(place, content) {
  try {
    return content(JSON.parse(await get(place)));
  } catch (error) {
    return [h("p", { class: "refused", role: "status" }, sentence(error.message))];
  }
}

function schemaContent({ columns, format, file, files, is_inferred: isInferred }) {
  const origin = isInferred ? `types as in the first rows (${format})` : `from the metadata of ${file}`;
  return [
    h("p", { class: "note" }, `${formatCount(columns.length, "column")}, ${origin}; ${formatCount(files, "file")}.`),
    columns.length ? table("Columns", [
      { title: "name", wide: true, cell: (column) => h("bdi", {}, column.name) }, { title: "type", cell: (column) => h("code", {}, column.type) },
      { title: "null", cell: (column) => (column.nullable ? "allowed" : "never") },
    ], columns) : "",
  ];
}

/** The section of the rows; `renew` closes it when the page shows another generation. */
export function rowsSection() {
  const body = h("div");
  const buttons = h("p", { class: "buttons" });
  let current = null;
  let shown = "";

  function renew(dataset) {
    const which = JSON.stringify([dataset.path, dataset.generation, absence(dataset)]);
    if (which === shown) return;
    shown = which;
    current = dataset;
    body.replaceChildren(absence(dataset) ? h("p", { class: "empty" }, absence(dataset)) : "");
    if (absence(dataset)) buttons.replaceChildren();
    else offer(FEW);
  }

  function offer(limit) {
    buttons.replaceChildren(h("button", { type: "button", onclick: () => show(limit) }, `Show ${limit} rows`));
  }

  async function show(limit) {
    const mine = current;
    body.setAttribute("aria-busy", "true");
    const content = await loaded(generationUrl(mine, `rows${query({ limit })}`), rowsContent);
    if (mine !== current) return;
    body.removeAttribute("aria-busy");
    body.replaceChildren(...content.flat(Infinity).filter(Boolean));
    offer(MANY);
  }

  return { part: h("section", { "aria-label": "Rows", class: "rows" }, h("h2", {}, "Rows"), buttons, body), renew };
}

function rowsContent(answer) {
  const width = answer.rows[0]?.length ?? 0;
  const columns = answer.columns.slice(0, width).map((column, i) => ({
    title: [h("bdi", {}, column.name), h("span", { class: "type" }, column.type)], verbatim: true,
    cell: (row) => (row[i] === null ? h("span", { class: "null" }, "null") : h("span", { class: "value" }, row[i])),
  }));
  const notes = [
    `The first ${formatCount(answer.rows.length, "row")}, from the ${answer.store}${answer.is_complete ? "; there are no more" : ""}.`,
    answer.columns.length > width && answer.rows.length && `${formatCount(answer.columns.length - width, "more column")} without values here.`,
    answer.other_files && `${formatCount(answer.other_files, "file")} left out: other columns.`,
  ];
  if (!answer.rows.length) return [h("p", { class: "empty" }, "It has no rows.")];
  return [h("p", { class: "note", role: "status" }, notes.filter(Boolean).join(" ")), table("Rows", columns, answer.rows)];
}
