// The facts of a generation, and why it is as it is.

import { facts, h } from "./elements.js";
import { formatBytes, formatCount, formatNumber, formatSeconds } from "./format.js";
import { datasetLink, originLinks } from "./dataset_links.js";
import { ago } from "./relative_time.js";

const LOSS = "If the cache were lost now"; // title of a paragraph
const MOST_GENERATIONS = 6; // that are named
const CACHE = { writing: "being written", present: "complete", evicted: "evicted", lost: "lost" };
const UNDER = { none: "no copy", copying: "being copied", present: "verified copy" };

/** The section with the facts. */
export function factsSection(dataset) {
  return h("section", { "aria-label": "Facts" }, h("h2", {}, "Facts"), facts([
    ["size", formatBytes(dataset.bytes)],
    ["rows", dataset.rows === null ? "" : formatNumber(dataset.rows)],
    ["cache", `${CACHE[dataset.cache] ?? dataset.cache}${dataset.pinned ? "; pinned" : ""}`],
    ["under-store", [UNDER[dataset.under_store] ?? dataset.under_store, dataset.persisted_at && [", ", ago(dataset.persisted_at)]]],
    ["time to persist", persistTime(dataset)],
    ["time to recompute", recomputeTime(dataset)],
    ["made by", dataset.operation ? `${dataset.operation} (version ${dataset.version})` : "no operation is recorded"],
    ["parameters", parameters(dataset.params)],
    ["DAG run", originLinks(dataset)],
    ["generations", generations(dataset)],
    ["read", [formatCount(dataset.reads, "time"), dataset.last_read_at && [", last ", ago(dataset.last_read_at)]]],
    ["strategy", `${dataset.strategy}${dataset.checkpoint ? "; marked as checkpoint" : ""}`],
    ["attempts to persist", dataset.attempts || ""], ["last error", dataset.error],
    ["digest of the rows", code(dataset.digest)], ["checksum of the files", code(dataset.checksum)],
    ["checksum in the under-store", dataset.under_checksum === dataset.checksum ? "" : code(dataset.under_checksum)],
  ]));
}

function code(text) {
  return text && h("code", {}, text);
}

function parameters(params) {
  const names = Object.keys(params);
  return names.length ? names.map((name, i) => [i ? ", " : "", h("code", {}, `${name}=${params[name]}`)]) : "";
}

/** `3.1 s as data; 2.8 s were predicted`: what a transfer took, or is predicted to take. */
function persistTime({ method, actual_seconds: actual, predicted_seconds: predicted }) {
  const how = method ? ` as ${method}` : "";
  if (actual !== null) return `${formatSeconds(actual)}${how}${predicted === null ? "" : `; ${formatSeconds(predicted)} were predicted`}`;
  return predicted === null ? "" : `${formatSeconds(predicted)} predicted${how}`;
}

/** `2.1 s when it was made; about 12 s predicted for 3 steps without the cache`. */
function recomputeTime({ compute_seconds: took, chain }) {
  const made = took === null ? "" : `${formatSeconds(took)} when it was made`;
  const steps = chain.steps.length && chain.seconds ? `about ${formatSeconds(chain.seconds)} predicted for ${formatCount(chain.steps.length, "step")} without the cache` : "";
  return [made, steps].filter(Boolean).join("; ");
}

/** The others of the path, the newest first. */
function generations({ generation, generations: every, superseded }) {
  const others = every.filter((each) => each.generation !== generation);
  const which = superseded ? `${generation}, superseded` : `${generation}, the newest`;
  const links = others.slice(0, MOST_GENERATIONS).map((each, i) => [i ? ", " : "; others: ", datasetLink(each)]);
  return [which, links, others.length > MOST_GENERATIONS && ` and ${formatNumber(others.length - MOST_GENERATIONS)} more`];
}

/** The section that says why the generation is where it is, and what would bring it back. */
export function explanationSection({ paragraphs, chain }) {
  const steps = chain.steps.length > 1 && [h("ol", {}, chain.steps.map((step) => h("li", {}, step))),
    h("p", {}, `About ${formatSeconds(chain.seconds)} in total.`)];
  const shown = Object.entries(paragraphs).filter(([title]) => title !== "Dataset"); // the facts say it
  return h("section", { "aria-label": "Why", class: "words" }, h("h2", {}, "Why"), shown.map(([title, text]) =>
    [h("h3", {}, title), title === LOSS && steps || h("p", {}, text)]));
}

/** What the quality gate found, as it reported it. */
export function reportSection({ report }) {
  return report ? h("section", { "aria-label": "Quality report" }, h("h2", {}, "Quality report"),
    h("pre", { class: "scroll", tabindex: 0 }, JSON.stringify(report, null, 2))) : "";
}
