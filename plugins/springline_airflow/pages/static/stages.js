// The counters of a job's stages as a table.

import { h, table, timeElement } from "./elements.js";
import { formatBytes, formatNumber, formatSeconds, formatTime } from "./format.js";

const OWN = new Set(["rows", "results", "late", "dead_letters"]); // counts that have columns of their own

/** The table of a job's status; columns in which no stage has a value are left out. */
export function stagesTable(status) {
  const rows = Object.entries(status.stages);
  if (!rows.length) return h("p", { class: "empty" }, "It has not completed a round yet.");
  const counts = (names) => ([, stage]) => {
    const name = names.find((each) => each in stage.counts);
    return name ? formatNumber(stage.counts[name]) : "";
  };
  const others = ([, stage]) => Object.entries(stage.counts).filter(([name, count]) => count && !OWN.has(name))
    .map(([name, count]) => `${name.replaceAll("_", " ")} ${formatNumber(count)}`).join(", ");
  const number = (title, cell) => ({ title, number: true, cell });
  const columns = [
    { title: "stage", cell: ([name]) => name },
    number("units", ([, stage]) => String(stage.units ?? "")),
    number("round", ([, stage]) => formatNumber(stage.round)),
    number("rows", counts(["rows", "results"])),
    number("lag (messages)", ([, stage]) => formatNumber(stage.lag ?? 0)),
    { title: "watermark", narrow: true, cell: ([, stage]) => watermark(stage, status.heartbeat_at) },
    number("round duration", ([, stage]) => formatSeconds(stage.seconds ?? null)),
    number("state size", ([, stage]) => formatBytes(stage.state_bytes ?? 0)),
    number("memory of a task", ([, stage]) => stage.task_memory ? formatBytes(stage.task_memory) : ""),
    number("late rows", counts(["late"])),
    number("dead letters", counts(["dead_letters"])),
    { title: "other counters", cell: others },
    { title: "last round", narrow: true, cell: ([, stage]) => timeElement(stage.round_ended_at || null) },
  ];
  const shown = columns.filter(({ cell }) => rows.some((row) => cell(row) !== ""));
  return table("Stages, in processing order", shown, rows, ([name]) => name);
}

/** The event time that a stage has reached, and how far that is behind the job's last heartbeat. */
function watermark({ watermark: mark }, now) {
  if (mark === null || mark === undefined) return "";
  return [h("div", {}, formatTime(mark)), now ? h("div", { class: "faint" }, `${formatSeconds(Math.max(0, now - mark))} behind`) : ""];
}
