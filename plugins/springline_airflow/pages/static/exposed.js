// The datasets that are only in the cache: what each is worth, and what would make it safe.

import { h, table } from "./elements.js";
import { formatBytes, formatSeconds } from "./format.js";
import { datasetLink, nameOf } from "./dataset_links.js";
import { persistButton } from "./persist_button.js";
import { badge } from "./states.js";

const MOST_COUNTED = 1000; // dependents

function outcome({ irrecoverable_reasons: gone, unproven_reasons: unproven }) {
  return [badge(gone.length ? "irrecoverable" : "lost"),
    !gone.length && h("p", { class: "faint" }, unproven.length ? "recomputed, if idempotent as declared" : "recomputed by proven operations")];
}

function datasetCell(row) {
  const reasons = [...row.irrecoverable_reasons, ...row.unproven_reasons];
  return [datasetLink(row), row.run_id && h("p", { class: "faint" }, row.run_id),
    reasons.length > 0 && h("details", {}, h("summary", {}, "Why"), h("p", {}, `${reasons.join("; ")}.`))];
}

function safetyCell({ path, generation, remedy }, onDone) {
  const { can_expedite: canExpedite, refusal } = remedy;
  return [h("p", {}, remedy.sentence), remedy.alternative && h("p", { class: "faint" }, remedy.alternative),
    refusal && h("p", { class: "refused" }, `Not permitted: ${refusal}.`),
    canExpedite && persistButton({ path, generation, refusal }, onDone)];
}

/** The table of the datasets, in the order given; `onDone` is called after one was moved to the head of the queue. */
export function exposedTable(caption, rows, onDone) {
  return table(caption, [
    { title: "dataset", cell: datasetCell },
    { title: "after a loss", cell: outcome },
    { title: "size", number: true, cell: (row) => formatBytes(row.bytes) },
    { title: "to recompute", number: true, cell: (row) => (row.irrecoverable_reasons.length ? "never" : formatSeconds(row.seconds)) },
    { title: "others need it", number: true, cell: ({ dependents: count }) => (count < MOST_COUNTED ? String(count) : `${MOST_COUNTED} or more`) },
    { title: "what makes it safe", wide: true, cell: (row) => safetyCell(row, onDone) },
  ], rows, nameOf);
}
