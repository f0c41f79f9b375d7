// What a person may ask for, of one dataset: tried dry first, then done when it is confirmed.

import { placeOf, post } from "./asking.js";
import { confirmed } from "./dialogs.js";
import { h } from "./elements.js";
import { outward } from "./frame.js";

const TITLES = {
  persist: "Persist now", pin: "Pin", unpin: "Unpin", evict: "Evict", mark: "Mark as checkpoint",
  unmark: "No checkpoint any more", recover: "Recover",
};

/** The wishes that have a meaning for a dataset as it is. */
export function wishesFor({ under_store: below, cache, pinned, checkpoint }) {
  const away = cache === "lost" || cache === "evicted";
  return [
    away && "recover", below === "none" && "persist", pinned ? "unpin" : "pin", below === "present" && cache === "present" && "evict",
    checkpoint ? "unmark" : "mark", cache === "present" && "recover",
  ].filter(Boolean);
}

/** Where Airflow shows the DAG run of `{dag_id, run_id}`, below its root. */
export function runAt({ dag_id: dag, run_id: run }) {
  const known = run.replace(/#\d+$/, ""); // the number of clearings is ours, not Airflow's
  return `dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(known)}`;
}

/** Buttons for them, and why some cannot be pressed; `done` is called when something was changed. */
export function wishButtons(dataset, done) {
  const wishes = wishesFor(dataset);
  const reasons = [...new Set(wishes.map((wish) => dataset.refused[wish]).filter(Boolean))];
  const button = (wish) => h("button", {
    type: "button", disabled: wish in dataset.refused, title: dataset.refused[wish],
    onclick: (event) => ask(dataset, wish, done, event.currentTarget),
  }, TITLES[wish]);
  return [h("p", { class: "buttons", role: "group", "aria-label": "What may be asked for" }, wishes.map(button)),
    reasons.length > 0 && h("p", { class: "refused" }, `Not by you: ${reasons.join("; ")}.`)];
}

function ask(dataset, wish, done, opener) {
  const place = `${placeOf(dataset.path)}/${wish}`;
  const body = { generation: dataset.generation };

  async function tried() {
    const { allowed, words } = await post(place, { ...body, dry_run: true });
    return { allowed, words: allowed ? `${words}.` : `Not now: ${words}.` };
  }

  async function grant() {
    const granted = await post(place, body);
    done();
    return granted.run_id && [`${granted.words}: `, outward(runAt(granted), "watch the DAG run"), "."];
  }

  confirmed(TITLES[wish], opener, tried, grant);
}
