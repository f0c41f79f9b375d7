// Backfills of Airflow, started from our pages by Airflow's own API, with its dry run before.

import { openConfirmation } from "./dialogs.js";
import { airflowLink } from "./shell.js";
import { formatCount } from "./format.js";

const ROOT = "../../api/v2/backfills";
const SHOWN = 10; // days that are named

/** Open a dialog that runs the days from the first to the last of `partitions` again, whether they ran before or not. */
export function openBackfill(dagId, partitions, opener, onDone) {
  const days = [...new Set(partitions.map((partition) => partition.slice(0, 10)))].sort();
  const body = {
    dag_id: dagId, from_date: `${days[0]}T00:00:00Z`, to_date: `${days.at(-1)}T00:00:00Z`, run_backwards: false,
    reprocess_behavior: "completed", max_active_runs: 1, dag_run_conf: {},
  };
  openConfirmation("Backfill", opener, async () => {
    const { backfills } = await send(`${ROOT}/dry_run`, body);
    const runs = backfills.map((each) => (each.logical_date ?? each.partition_key ?? "").slice(0, 10));
    const named = `${runs.slice(0, SHOWN).join(", ")}${runs.length > SHOWN ? ", …" : ""}`;
    return runs.length ? { allowed: true, message: `${formatCount(runs.length, "DAG run")} of ${dagId} will be started, whether or not the day ran before: ${named}.` }
      : { allowed: false, message: `${dagId} has no DAG run to be started for ${days[0]} to ${days.at(-1)}.` };
  }, async () => {
    await send(ROOT, body);
    onDone();
    return ["Started: ", airflowLink(`dags/${encodeURIComponent(dagId)}/backfills`, "open the DAG's backfills"), "."];
  });
}

async function send(address, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  const response = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
  if (response.ok) return response.json();
  let reason = response.statusText;
  try {
    const { detail } = await response.json();
    reason = typeof detail === "string" ? detail : detail?.message ?? JSON.stringify(detail);
  } catch {
    // not JSON: only the status is known
  }
  throw new Error(response.status === 403 ? `You may not start backfills of ${body.dag_id}.` : `Airflow refused the backfill: ${reason}`);
}
