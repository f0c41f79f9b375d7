// The dead letters of a job: the records that it could not process, with reason and content, searched and retried.

import { jobUrl, post, query } from "./api.js";
import { openConfirmation } from "./dialogs.js";
import { h, table, timeElement } from "./elements.js";
import { RARELY, liveSection } from "./live_section.js";
import { formatBytes, formatCount, formatNumber } from "./format.js";

const SHOWN = 50; // records, the newest
const QUIET = 300; // milliseconds after the last letter, until what is typed is searched

/** The section of a job's page; a user who may change the job can retry what is shown. */
export function deadLettersSection(job, mayChange) {
  let timer = 0;
  let isSought = location.hash === "#dead-letters"; // by a link from elsewhere
  let retriable = []; // the records that are shown and can be retried
  const filter = h("input", { type: "search", placeholder: "stage, position, reason or content", oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => section.refresh(), QUIET);
  } });
  const all = h("button", { type: "button", hidden: true, onclick: (event) => retry(job, retriable, event.currentTarget, () => section.refresh()) }, "Retry all shown");
  const form = h("form", { class: "asked", hidden: true, onsubmit: (event) => {
    event.preventDefault();
    section.refresh();
  } }, h("label", {}, "Filter", filter), mayChange && all);

  const section = liveSection("Dead letters", () => `${jobUrl(job, "dead-letters")}${query({ limit: SHOWN, contains: filter.value.trim() })}`, (answer) => {
    const letters = [...answer.dead_letters].reverse();
    if (isSought) requestAnimationFrame(() => section.part.scrollIntoView());
    isSought = false;
    retriable = letters.filter((each) => !each.refusal).map((each) => each.record);
    form.hidden = !letters.length && !filter.value;
    all.hidden = retriable.length < 2;
    if (!letters.length) return h("p", { class: "empty" }, filter.value.trim() ? "No dead letter contains this text." : "No record was refused: there are no dead letters.");
    const count = answer.matching > letters.length ? `The newest ${letters.length} of ${formatCount(answer.matching, "dead letter")}` : formatCount(letters.length, "dead letter");
    return [h("p", { class: "count" }, count), lettersTable(letters, mayChange && ((each, opener) => retry(job, [each.record], opener, () => section.refresh())))];
  }, { head: form, every: RARELY });
  section.part.id = "dead-letters";
  return section.part;
}

function lettersTable(letters, send) {
  const columns = [
    { title: "time", narrow: true, cell: (each) => timeElement(Date.parse(each.failed_at) / 1000) },
    { title: "stage", cell: (each) => each.stage },
    { title: "partition:offset", narrow: true, cell: (each) => h("span", { title: each.topic }, `${each.partition}:${formatNumber(each.offset)}`) },
    { title: "reason", cell: (each) => each.reason },
    { title: "content", wide: true, cell: content },
    { title: "retry", narrow: true, cell: (each) => retryCell(each, send) },
  ];
  const shown = columns.filter(({ cell }) => letters.some((each) => cell(each) !== ""));
  return table("Dead letters, newest first", shown, letters, (each) => each.record);
}

function content({ content: text, encoding, bytes }) {
  const isCut = encoding === "text" ? new TextEncoder().encode(text).length < bytes : (text.length + 1) / 3 < bytes;
  const notes = [encoding === "hex" && "not UTF-8, shown as hexadecimal digits", isCut && `cut; ${formatBytes(bytes)} in all`].filter(Boolean);
  return [h("code", { class: "content" }, text), notes.length > 0 && h("p", { class: "faint" }, notes.join("; "))];
}

function retryCell(each, send) {
  if (each.retried_at) return ["retried ", timeElement(Date.parse(each.retried_at) / 1000)];
  if (each.refusal) return h("span", { class: "faint", title: each.refusal }, "not possible");
  if (!send) return "";
  const name = `Retry: partition ${each.partition}, offset ${each.offset}`;
  return h("button", { type: "button", class: "small", "aria-label": name, onclick: (event) => send(each, event.currentTarget) }, "Retry");
}

function retry(job, records, opener, onDone) {
  const route = jobUrl(job, "dead-letters", "retry");
  openConfirmation(records.length === 1 ? "Retry" : `Retry ${records.length} records`, opener, () => post(route, { records, dry_run: true }), async () => {
    const done = await post(route, { records });
    onDone();
    return Object.keys(done.refused).length ? [done.message] : null;
  });
}
