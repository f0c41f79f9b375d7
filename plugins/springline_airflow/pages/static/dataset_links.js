// Links to datasets, to what made them in Airflow, and lists of both.

import { query } from "./api.js";
import { h } from "./elements.js";
import { airflowLink } from "./shell.js";
import { badge } from "./states.js";
import { runUrl } from "./actions.js";

/** The address of the page of a generation; of the newest one if there is no number. */
export function pageOf({ path, generation }) {
  return `dataset${query({ path, generation })}`;
}

/** A link to a generation, by its name. */
export function datasetLink(each) {
  return h("a", { href: pageOf(each), class: "name" }, nameElements(each));
}

/** The name of a generation. */
export function nameOf({ path, generation }) {
  return `${path}@${generation}`;
}

/** The same as elements; letters that are written from right to left do not move its number. */
export function nameElements({ path, generation }) {
  return [h("span", { class: "name" }, path), `@${generation}`];
}

/** Generations in a sentence, each with its state; of many the first, and how many more there are. */
export function datasetList(datasets, most = 6) {
  const shown = datasets.slice(0, most).map((each, i) => [i ? ", " : "", datasetLink(each), " ", badge(each.status)]);
  return datasets.length > most ? [shown, ` and ${(datasets.length - most).toLocaleString("en")} more`] : shown;
}

/** The DAG, the DAG run and the task that made a generation, as links into Airflow. */
export function originLinks(dataset) {
  if (!dataset.dag_id) return "";
  const run = dataset.run_id && runUrl(dataset);
  return [
    airflowLink(`dags/${encodeURIComponent(dataset.dag_id)}`, dataset.dag_id),
    run && [" · ", airflowLink(run, dataset.run_id)],
    run && dataset.task_id && [" · ", airflowLink(`${run}/tasks/${encodeURIComponent(dataset.task_id)}`, dataset.task_id)],
  ];
}
