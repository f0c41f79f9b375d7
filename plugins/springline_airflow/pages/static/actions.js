// What a person may ask for, of one dataset: tried dry first, then done when it is confirmed.

import { datasetUrl, post } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h } from "./elements.js";
import { airflowLink } from "./shell.js";

const TITLES = {
  persist: "Persist now", pin: "Pin", unpin: "Unpin", evict: "Evict", mark: "Mark as checkpoint",
  unmark: "Unmark checkpoint", recover: "Recover",
};

/** The actions that have a meaning for a dataset as it is. */
export function actionsFor({ under_store: below, cache, pinned, checkpoint }) {
  const away = cache === "lost" || cache === "evicted";
  return [
    away && "recover", below === "none" && "persist", pinned ? "unpin" : "pin", below === "present" && cache === "present" && "evict",
    checkpoint ? "unmark" : "mark", cache === "present" && "recover",
  ].filter(Boolean);
}

/** Where Airflow shows the DAG run of `{dag_id, run_id}`, below its root. */
export function runUrl({ dag_id: dag, run_id: run }) {
  const airflowId = run.replace(/#\d+$/, ""); // the number of clearings is ours, not Airflow's
  return `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(airflowId)}`;
}

/** Buttons for them, and why some cannot be pressed; `onDone` is called when something was changed. */
export function actionButtons(dataset, onDone) {
  const actions = actionsFor(dataset);
  const reasons = [...new Set(actions.map((action) => dataset.refused[action]).filter(Boolean))];
  const button = (action) => h("button", {
    type: "button", disabled: action in dataset.refused, title: dataset.refused[action],
    onclick: (event) => ask(dataset, action, onDone, event.currentTarget),
  }, TITLES[action]);
  return [h("p", { class: "buttons", role: "group", "aria-label": "What may be asked for" }, actions.map(button)),
    reasons.length > 0 && h("p", { class: "refused" }, `Not by you: ${reasons.join("; ")}.`)];
}

function ask(dataset, action, onDone, opener) {
  const place = `${datasetUrl(dataset.path)}/${action}`;
  const body = { generation: dataset.generation };

  async function tried() {
    const { allowed, message } = await post(place, { ...body, dry_run: true });
    return { allowed, message: allowed ? `${message}.` : `Not now: ${message}.` };
  }

  async function grant() {
    const granted = await post(place, body);
    onDone();
    return granted.run_id && [`${granted.message}: `, airflowLink(runUrl(granted), "watch the DAG run"), "."];
  }

  openConfirmation(TITLES[action], opener, tried, grant);
}
