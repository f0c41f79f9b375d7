// Actions on one dataset: a dry run first, the change itself after a confirmation.

import { datasetUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h } from "./elements.js";
import { airflowLink } from "./shell.js";

const TITLES = {
  persist: "Persist now", pin: "Pin", unpin: "Unpin", evict: "Evict", mark: "Mark as checkpoint",
  unmark: "Unmark checkpoint", recover: "Recover",
};

/** The actions that are possible in the state of a dataset. */
export function actionsFor({ under_store: below, cache, pinned, checkpoint }) {
  const away = cache === "lost" || cache === "evicted";
  return [
    away && "recover", below === "none" && "persist", pinned ? "unpin" : "pin", below === "present" && cache === "present" && "evict",
    checkpoint ? "unmark" : "mark", cache === "present" && "recover",
  ].filter(Boolean);
}

/** The address of Airflow's page of the DAG run `{dag_id, run_id}`, below its root. */
export function runUrl({ dag_id: dag, run_id: run }) {
  const airflowId = run.replace(/#\d+$/, ""); // the number of clearings is ours, not Airflow's
  return `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(airflowId)}`;
}

/** Buttons for the actions, with the reasons why some are disabled; calls `onDone` after a change. */
export function actionButtons(dataset, onDone) {
  const actions = actionsFor(dataset);
  const reasons = [...new Set(actions.map((action) => dataset.refused[action]).filter(Boolean))];
  const button = (action) => h("button", {
    type: "button", disabled: action in dataset.refused, title: dataset.refused[action],
    onclick: (event) => ask(dataset, action, onDone, event.currentTarget),
  }, TITLES[action]);
  return [h("p", { class: "buttons", role: "group", "aria-label": "Actions" }, actions.map(button)),
    reasons.length > 0 && h("p", { class: "refused" }, `Not permitted: ${reasons.join("; ")}.`)];
}

function ask(dataset, action, onDone, opener) {
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

  openConfirmation(TITLES[action], opener, tried, grant);
}
