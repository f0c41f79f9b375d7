// The newest datasets, and those whose path contains a text.

import { query } from "./api.js";
import { h, table } from "./elements.js";
import { formatBytes, formatNumber } from "./format.js";
import { airflowLink } from "./shell.js";
import { badge } from "./states.js";
import { runUrl } from "./actions.js";
import { datasetLink } from "./dataset_links.js";
import { ago } from "./relative_time.js";

/** The route of the list. */
export function listUrl({ search = "", status = "", limit = 50 }) {
  return `datasets${query({ search, status, limit })}`;
}

/** The list as a table; `caption` is its name. */
export function datasetTable(caption, { datasets, is_complete: isComplete }) {
  return [
    table(caption, [
      { title: "dataset", wide: true, cell: datasetLink }, { title: "state", cell: (each) => badge(each.status) },
      { title: "size", number: true, cell: (each) => formatBytes(each.bytes) },
      { title: "rows", number: true, cell: (each) => (each.rows === null ? "" : formatNumber(each.rows)) },
      { title: "operation", cell: (each) => each.operation },
      { title: "DAG run", cell: (each) => (each.run_id ? airflowLink(runUrl(each), each.run_id) : "") },
      { title: "created", cell: (each) => ago(each.created_at) },
    ], datasets, (each) => each.path),
    isComplete ? "" : h("p", { class: "note" }, "There are older ones: search by path to see them."),
  ];
}
