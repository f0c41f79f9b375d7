// The panel beside the board: one generation, what would bring it back, and what can be done with its partition.

import { actionButtons, runUrl } from "./actions.js";
import { openBackfill } from "./backfill.js";
import { post } from "./api.js";
import { datasetLink } from "./dataset_links.js";
import { openConfirmation } from "./dialogs.js";
import { facts, h, visible } from "./elements.js";
import { formatBytes, formatCount, formatSeconds, formatTime } from "./format.js";
import { airflowLink } from "./shell.js";
import { badge } from "./states.js";

const DAY = /^\d{4}-\d\d-\d\d/;

/** What fills the panel of a cell; `broken` is what is lost of its partition, if anything; `onDone` follows a change. */
export function cellPanel(cell, broken, onDone) {
  return [
    h("h2", { class: "name" }, cell.partition ? [h("bdi", {}, cell.partition), " "] : "", badge(cell.status)),
    h("p", { class: "path" }, datasetLink(cell)),
    h("p", { id: "recovery", class: "recovery" }, recoveryText(cell)),
    cell.chain.length > 1 && h("ol", { class: "steps" }, cell.chain.map((step) => h("li", {},
      `${step.action} ${step.template ? step.path : "a dataset that you may not read"}${step.seconds === null ? "" : ` (${formatSeconds(step.seconds)})`}`))),
    actionButtons(cell, onDone),
    facts([
      ["size", formatBytes(cell.bytes)], ["rows", cell.rows === null ? "" : cell.rows.toLocaleString("en")],
      ["operation", cell.operation && `${cell.operation} (version ${cell.version})`],
      ["DAG run", cell.run_id && airflowLink(runUrl(cell), cell.run_id)],
      ["committed", formatTime(cell.committed_at)], ["persisted", formatTime(cell.persisted_at)],
      ["last error", cell.error],
    ]),
    partitionActions(cell, broken, onDone),
  ];
}

/** The panel of a partition without a generation of this template. */
export function emptyPanel(node, partition, onDone) {
  return [
    h("h2", { class: "name" }, h("bdi", {}, partition)),
    h("p", {}, `No live dataset of ${node.label} in this partition.`),
    partitionActions({ dag_id: node.dag_id, partition }, null, onDone),
  ];
}

/** What would restore a generation, in one sentence. */
function recoveryText(cell) {
  const count = cell.chain.length;
  const takes = cell.seconds ? `, in about ${formatSeconds(cell.seconds)}` : "";
  const doubt = cell.unproven_reasons.length ? " Not all of the operations are proven idempotent." : "";
  if (cell.irrecoverable_reasons.length) {
    return `${cell.is_lost ? "Irrecoverable" : "Irrecoverable if the cache were lost"}: ${cell.irrecoverable_reasons.join("; ")}.`;
  }
  if (cell.status === "writing") return "It is being written.";
  if (!count) return "Persisted: nothing would have to be recomputed.";
  const steps = formatCount(count, "step");
  return cell.is_lost ? `Recover brings it back by ${steps}${takes}.${doubt}` : `If the cache were lost, ${steps} would bring it back${takes}.${doubt}`;
}

function partitionActions(cell, broken, onDone) {
  const gone = broken ? broken.lost + broken.irrecoverable : 0;
  const isDay = DAY.test(cell.partition) && cell.dag_id;
  if (!gone && !isDay) return "";
  return h("section", { class: "partition", "aria-label": `Partition ${cell.partition}` },
    h("h3", {}, `All of ${cell.partition}`),
    gone ? h("p", {}, `${[broken.lost && `${broken.lost} lost`, broken.irrecoverable && `${broken.irrecoverable} irrecoverable`].filter(Boolean).join(", ")}.`) : "",
    h("p", { class: "buttons" },
      broken?.lost > 1 && h("button", { type: "button", onclick: (event) => recoverAll([cell.partition], event.currentTarget, onDone) }, `Recover all ${broken.lost} lost`),
      isDay && h("button", { type: "button", onclick: (event) => openBackfill(cell.dag_id, [cell.partition], event.currentTarget, onDone) }, "Backfill this day")));
}

/** Restore what is lost of some partitions, after a dry run and a confirmation. */
export function recoverAll(partitions, opener, onDone) {
  openConfirmation("Recover", opener, async () => {
    const { allowed, message } = await post("lineage/recover", { partitions, dry_run: true });
    return { allowed, message: `${message}.` };
  }, async () => {
    const granted = await post("lineage/recover", { partitions });
    onDone();
    return [`${visible(granted.message)}: `, airflowLink(runUrl(granted), "open the DAG run"), "."];
  });
}
