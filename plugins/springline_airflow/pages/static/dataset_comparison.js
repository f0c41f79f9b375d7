// Two generations of a dataset side by side; a difference has a sign and a word.

import { generationUrl, get, query } from "./api.js";
import { h, table } from "./elements.js";
import { formatBytes, formatCount, formatNumber, formatSeconds, sentence } from "./format.js";
import { ago } from "./relative_time.js";

const SIGNS = { "": "", same: "= same", added: "+ added", removed: "− removed", changed: "≠ changed" };

/** The section; `renew` shows the comparison of another generation with the one before it. */
export function comparisonSection() {
  const body = h("div");
  const before = h("select", { onchange: load });
  const after = h("select", { onchange: load });
  const form = h("form", { class: "asked", onsubmit: (event) => event.preventDefault() },
    h("label", {}, "Generation", before), h("label", {}, "compared with", after));
  let shown = "";
  let dataset = null;

  function renew(detail) {
    const which = JSON.stringify([detail.path, detail.generation, detail.generations.map((each) => each.generation)]);
    if (which === shown) return;
    shown = which;
    dataset = detail;
    const numbers = detail.generations.map((each) => each.generation);
    const earlier = numbers.find((number) => number < detail.generation) ?? numbers.find((number) => number !== detail.generation);
    form.hidden = earlier === undefined;
    if (form.hidden) {
      body.replaceChildren(h("p", { class: "empty" }, "There is no other generation that you may read."));
      return;
    }
    offer(before, numbers, earlier);
    offer(after, numbers, detail.generation);
    load();
  }

  async function load() {
    const mine = [before.value, after.value].join();
    let content;
    try {
      const place = `${generationUrl({ path: dataset.path, generation: after.value }, "comparison")}${query({ other: before.value })}`;
      content = differences(JSON.parse(await get(place)));
    } catch (error) {
      content = [h("p", { class: "refused", role: "status" }, sentence(error.message))];
    }
    if (mine === [before.value, after.value].join()) body.replaceChildren(...content);
  }

  return { part: h("section", { "aria-label": "Generations compared" }, h("h2", {}, "Generations compared"), form, body), renew };
}

function offer(select, numbers, chosen) {
  select.replaceChildren(...numbers.map((number) => h("option", { value: number, selected: number === chosen }, `@${number}`)));
}

function differences(answer) {
  const { before, after, columns, params } = answer;
  const rows = [...recorded(answer), ...named("column", columns), ...named("parameter", params)];
  const unknown = [before, after].map((side) => side.columns_unknown).filter(Boolean);
  const same = columns.filter((column) => column.change === "same").length;
  return [
    h("p", { class: "note", role: "status" }, summary(answer)),
    table("Generations compared", [
      { title: "what", wide: true, cell: (row) => row.what }, { title: `@${before.generation}`, cell: (row) => row.before },
      { title: `@${after.generation}`, cell: (row) => row.after },
      { title: "difference", cell: (row) => h("span", { class: `change ${row.change}` }, SIGNS[row.change], row.by && ` (${row.by})`) },
    ], rows),
    unknown.length ? h("p", { class: "refused" }, `Columns are not compared: ${unknown.map(sentence).join(" ")}`) : "",
    same ? h("p", { class: "note" }, `${formatCount(same, "column")} without a difference.`) : "",
  ].filter(Boolean);
}

/** What the catalog has of both. */
function recorded({ before, after, same_digest: same }) {
  const row = (what, name, format) => ({
    what, before: format(before[name]), after: format(after[name]), change: before[name] === after[name] ? "same" : "changed",
    by: typeof before[name] === "number" && before[name] && after[name] !== before[name] ? share(before[name], after[name]) : "",
  });
  const number = (value) => (value === null ? "not counted" : formatNumber(value));
  const text = (value) => value || "none recorded";
  return [
    row("rows", "rows", number), row("size", "bytes", formatBytes),
    { what: "content of the rows", before: "", after: "", change: same ? "same" : "changed", by: same === null ? "a digest is missing" : same ? "equal digests" : "other digests" },
    row("operation", "operation", text), row("version of the operation", "version", text),
    row("duration of the operation", "compute_seconds", formatSeconds),
    { what: "created", before: ago(before.created_at), after: ago(after.created_at), change: "", by: "" },
  ];
}

/** `+12.5 %`. */
function share(before, after) {
  const value = ((after - before) / before) * 100;
  return `${value > 0 ? "+" : "−"}${Number(Math.abs(value).toPrecision(3)).toLocaleString("en")} %`;
}

/** Columns or parameters that are not the same. */
function named(kind, values) {
  return values.filter((value) => value.change !== "same").map((value) => ({
    what: [`${kind} `, h("bdi", {}, value.name)], before: value.before, after: value.after, change: value.change, by: "",
  }));
}

function summary({ before, after, same_digest: same, columns }) {
  const counts = ["added", "removed", "changed"].map((change) => [columns.filter((column) => column.change === change).length, change]);
  const schema = counts.filter(([count]) => count).map(([count, change]) => `${formatCount(count, "column")} ${change}`);
  const known = !before.columns_unknown && !after.columns_unknown;
  return sentence([
    same === null ? "whether the rows are equal is not known" : same ? "the rows are equal" : "the rows differ",
    known && (schema.length ? schema.join(", ") : "the columns are the same"),
    before.version !== after.version && "made by another version of the operation",
  ].filter(Boolean).join("; "));
}
