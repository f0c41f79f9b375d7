// Actions on one dataset: a dry run first, the change itself after a confirmation.

import { datasetUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h } from "./elements.js";
import { listed } from "./format.js";
import { airflowLink } from "./shell.js";

export const TITLES = {
  persist: "Persist now", pin: "Pin", unpin: "Unpin", evict: "Evict", mark: "Mark as checkpoint",
  unmark: "Unmark checkpoint", recover: "Recover",
};

/** What an action is called; of a dataset that is in the cache, recovery first checks whether it has to do anything. */
function titleOf(action, dataset) {
  return action === "recover" && dataset.cache === "present" ? "Check and recover" : TITLES[action];
}

/** The address of Airflow's page of the DAG run `{dag_id, run_id}`, below its root. */
export function runUrl({ dag_id: dag, run_id: run }) {
  const airflowId = run.replace(/#\d+$/, ""); // the number of clearings is ours, not Airflow's
  return `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(airflowId)}`;
}

/** Buttons for the actions that are possible now, and why others are not permitted; calls `onDone` after a change. */
export function actionButtons(dataset, onDone) {
  const button = (action) => h("button", {
    type: "button", onclick: (event) => confirmAction(dataset, action, onDone, event.currentTarget),
  }, titleOf(action, dataset));
  return [
    dataset.actions.length ? h("p", { class: "buttons", role: "group", "aria-label": "Actions" }, ordered(dataset).map(button)) : "",
    refusals(dataset).map((line) => h("p", { class: "refused" }, line)),
  ];
}

/** The actions, the most likely one first: recovery, unless there is nothing to bring back. */
function ordered({ actions, cache }) {
  const rest = actions.filter((action) => action !== "recover");
  const recovery = actions.filter((action) => action === "recover");
  return cache === "present" ? [...rest, ...recovery] : [...recovery, ...rest];
}

/** One line for each reason: `Not permitted: Pin and Evict, because you may not change the DAG etl.` */
function refusals(dataset) {
  const titles = new Map();
  for (const [action, reason] of Object.entries(dataset.refused)) {
    titles.set(reason, [...(titles.get(reason) ?? []), titleOf(action, dataset)]);
  }
  return [...titles].map(([reason, refused]) => `Not permitted: ${listed(refused)}, because ${reason}.`);
}

/** Open a dialog with the dry run of an action on a generation; `onDone` is called after the change. */
export function confirmAction(dataset, action, onDone, opener) {
  const place = `${datasetUrl(dataset.path)}/${action}`;
  const body = { generation: dataset.generation };

  async function tried() {
    const { allowed, message } = await post(place, { ...body, dry_run: true });
    return { allowed, message: allowed ? `${message}.` : `Not possible: ${message}.` };
  }

  async function grant() {
    const granted = await post(place, body);
    onDone();
    return granted.run_id && [`${granted.message}: `, airflowLink(runUrl(granted), "open the DAG run"), "."];
  }

  openConfirmation(titleOf(action, dataset), opener, tried, grant);
}
