// Ad hoc query: answered once, from the slices that a job keeps at this moment.

import { get, jobUrl, post } from "./api.js";
import { h, write } from "./elements.js";
import { rowsTable } from "./rows.js";
import { formatCount } from "./format.js";
import { morph } from "./morph.js";

const MOST = 500; // rows that are shown

/** The section of a job's page; `propose` returns a first query for the registered ones. */
export function adHocPart(job) {
  const sql = h("textarea", { rows: 4, spellcheck: "false", required: true, onkeydown: (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(event);
  } });
  const button = h("button", { type: "submit" }, "Run");
  const said = h("p", { class: "trouble", role: "status" });
  const answer = h("div");
  const slicesElement = h("div");
  let listed = null; // the queries whose slices are listed
  const form = h("form", { class: "question", onsubmit: ask }, h("label", {}, "SQL, run once (Ctrl+Enter)", sql), button);
  const part = h("section", { "aria-label": "Ad hoc query" }, h("h2", {}, "Ad hoc query"), slicesElement, form, said, answer);

  async function ask(event) {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    said.classList.remove("wrong");
    write(said, "running …");
    try {
      const reply = await post(jobUrl(job, "ask"), { sql: sql.value });
      write(said, `${formatCount(reply.rows.length, "row")}${covers(reply)}`);
      morph(answer, reply.rows.length ? rowsTable("Result", reply.rows.slice(0, MOST), timesOf(reply)) : "",
        reply.rows.length > MOST ? h("p", {}, `Only the first ${MOST} rows are shown.`) : "");
    } catch (error) {
      write(said, error.message);
      said.classList.add("wrong");
      morph(answer);
      point(error);
    }
    button.disabled = false;
  }

  /** Place the cursor at the error in the SQL. */
  function point({ line, column }) {
    if (!line) return;
    const before = sql.value.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    const position = before + Math.max(0, (column ?? 1) - 1);
    sql.focus();
    sql.setSelectionRange(position, position);
  }

  async function listAskable() {
    const { slices } = JSON.parse(await get(jobUrl(job, "ask")));
    morph(slicesElement, h("p", {}, slices.length ? "It is answered from the slices that the job keeps for its registered queries:"
      : "No slices are kept: register a query first."),
      slices.length ? h("ul", {}, ...slices.map((each) => h("li", {}, h("code", {}, each.aggregates.join(", ")), " by any of ",
        h("code", {}, each.keys.join(", ") || "no keys"), each.where ? [" of the rows where ", h("code", {}, each.where)] : "",
        `, in windows of ${each.seconds} s or multiples of that`))) : "");
  }

  function propose(queries) {
    const [first] = queries;
    const versions = JSON.stringify(queries.map(({ name, since }) => [name, since]));
    if (versions !== listed) listAskable().catch((error) => morph(slicesElement, h("p", { class: "wrong" }, error.message)));
    listed = versions;
    if (!sql.value && first && document.activeElement !== sql) sql.value = first.sql.replace(/\s+WINDOWING[\s\S]*$/i, "");
  }

  return { part, propose };
}

function timesOf({ columns }) {
  return columns.filter(({ type }) => type === "timestamp").map(({ name }) => name);
}

function covers({ begin, end }) {
  return begin === null ? ", no data: there is no slice yet" : `, from ${new Date(begin).toLocaleString()} to ${new Date(end).toLocaleString()}`;
}
