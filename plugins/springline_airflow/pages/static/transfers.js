// The transfers under way, each with its progress; and the failed ones with the time until they are tried again.

import { h, table } from "./elements.js";
import { formatBytes, formatCount, formatSeconds, formatShare } from "./format.js";
import { datasetLink, nameOf } from "./dataset_links.js";
import { persistButton } from "./persist_button.js";

const MOST_OF_PREDICTED = 0.99; // a transfer that takes longer than predicted is never shown as complete

/**
 * How far a transfer is: `{share, text}`. Data is measured by its bytes, an operation by the time that was predicted for it;
 * `share` is null if neither is known.
 */
function progressOf({ method, bytes, sent_bytes: sent, seconds, predicted_seconds: predicted }) {
  const since = `${formatSeconds(seconds)}${predicted === null ? "" : `, predicted ${formatSeconds(predicted)}`}`;
  if (method === "data" && bytes > 0) {
    const share = sent / bytes;
    const left = sent > 0 && sent < bytes ? `; about ${formatSeconds((seconds * (bytes - sent)) / sent)} left` : "";
    return { share, text: `${formatBytes(sent)} of ${formatBytes(bytes)} (${formatShare(share)}) in ${since}${left}` };
  }
  const share = predicted ? Math.min(seconds / predicted, MOST_OF_PREDICTED) : null;
  return { share, text: `running for ${since}` };
}

function progressCell(row) {
  const { share, text } = progressOf(row);
  return h("div", { class: "progress" },
    h("progress", { value: share, max: share === null ? null : 1, "aria-label": `Progress of ${nameOf(row)}` }), h("span", {}, text));
}

/** The table of the transfers under way. */
export function sendingTable(rows) {
  return table("Sent now", [
    { title: "dataset", wide: true, cell: datasetLink },
    { title: "progress", cell: progressCell },
    { title: "method", cell: ({ method }) => methodText(method) },
    { title: "by", cell: ({ owner, attempts, is_blocking: blocks }) => [owner, attempts > 1 && `attempt ${attempts}`,
      blocks && "its task waits for it"].filter(Boolean).join(", ") },
  ], rows, nameOf);
}

/** What is sent, as a sign and a word. */
export function methodText(method) {
  return method === "operation" ? "ƒ operation" : "≡ data";
}

/** The table of the failed transfers. */
export function retryTable(rows, onDone) {
  return table("Failed, and tried again later", [
    { title: "dataset", wide: true, cell: datasetLink },
    { title: "size", number: true, cell: (row) => formatBytes(row.bytes) },
    { title: "next attempt in", number: true, cell: (row) => formatSeconds(Math.ceil(row.retry_in)) },
    { title: "failed", number: true, cell: (row) => formatCount(row.attempts, "time") },
    { title: "last error", cell: (row) => row.error },
    { title: "action", cell: (row) => persistButton(row, onDone) },
  ], rows, nameOf);
}
