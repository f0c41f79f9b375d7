// Result rows as a table.

import { table } from "./elements.js";
import { formatNumber, isNumber } from "./format.js";

const BOUNDS = ["window_start", "window_end"];

/** The table; a column is set as numbers where all that is in it are. `times` names those whose texts are moments. */
export function rowsTable(caption, rows, times = BOUNDS) {
  const names = [...new Set(rows.flatMap(Object.keys))];
  return table(caption, names.map((name) => {
    const number = rows.every((row) => isNumber(row[name]));
    const format = times.includes(name) ? formatMoment : formatNumber;
    return { title: name, verbatim: true, number, cell: (row) => format(row[name]) };
  }), rows);
}

function formatMoment(value) {
  return typeof value === "string" ? new Date(value).toLocaleString() : formatNumber(value);
}
