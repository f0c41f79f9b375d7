// Texts of sizes, durations and times, as in the commands' output.

const DAY = 86_400; // seconds

function threeDigits(value) {
  return value >= 99.5 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** `512 B`, `1.2 GB`: powers of 1000. */
export function formatBytes(size) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (Math.abs(size) < 999.5) return unit === "B" ? `${Math.round(size)} B` : `${threeDigits(size)} ${unit}`;
    size /= 1000;
  }
  return `${threeDigits(size)} TB`;
}

/** `21 ms`, `3.4 s`, `3 min 20 s`, `2.5 h`, `12 days`; null is `?`. */
export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  if (seconds < 0.9995) return `${threeDigits(seconds * 1000)} ms`;
  if (seconds < 99.5) return `${threeDigits(seconds)} s`;
  if (seconds < 3600) {
    const rounded = Math.round(seconds);
    const rest = rounded % 60;
    return rest ? `${Math.floor(rounded / 60)} min ${rest} s` : `${Math.floor(rounded / 60)} min`;
  }
  if (seconds < 48 * 3600) return `${threeDigits(seconds / 3600)} h`;
  return `${threeDigits(seconds / 86400)} days`;
}

/** `2026-11-25 10:31:05` as on Airflow's pages, in the zone that the reader has chosen there; null is empty. */
export function formatTime(timestamp) {
  return timestamp === null || timestamp === undefined ? "" : `${isoDay(timestamp)} ${formatClock(timestamp)}`;
}

function isoDay(timestamp) {
  return moment(timestamp, { year: "numeric", month: "2-digit", day: "2-digit" }, "sv");
}

/** `10:31:05`: the time of day alone. */
export function formatClock(timestamp) {
  return moment(timestamp, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

/** `10:31:05` today, `Nov 25, 10:31` this year, `Nov 25, 2025` before; `now` in seconds. */
export function shortTime(timestamp, now = Date.now() / 1000) {
  const [day, today] = [isoDay(timestamp), isoDay(now)];
  if (day === today) return formatClock(timestamp);
  const date = { month: "short", day: "numeric" };
  if (day.slice(0, 4) !== today.slice(0, 4)) return moment(timestamp, { ...date, year: "numeric" });
  return moment(timestamp, { ...date, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

/** `just now`, `40 s ago`, `3 min ago`, `5 h ago`, `12 days ago`; null is empty. */
export function formatAge(timestamp, now = Date.now() / 1000) {
  if (timestamp === null || timestamp === undefined) return "";
  const age = now - timestamp;
  if (age < 1) return "just now";
  if (age < 99.5) return `${Math.round(age)} s ago`;
  if (age < 5400) return `${Math.round(age / 60)} min ago`;
  return age < 2 * DAY ? `${Math.round(age / 3600)} h ago` : `${Math.round(age / DAY)} days ago`;
}

/** A moment (seconds since 1970) as these options of `Intl.DateTimeFormat` say, in the reader's zone. */
export function moment(timestamp, options, language = "en") {
  return formatterOf(language, options).format(new Date(timestamp * 1000));
}

const formatters = new Map(); // a new one takes longer than all that it formats

function formatterOf(language, options) {
  const key = JSON.stringify([language, options]);
  if (!formatters.has(key)) formatters.set(key, new Intl.DateTimeFormat(language, { ...options, timeZone: chosenZone() }));
  return formatters.get(key);
}

/** The zone in which Airflow's own pages show times; nothing where none is chosen. */
function chosenZone() {
  try {
    const zone = JSON.parse(localStorage.getItem("timezone")) ?? undefined;
    new Intl.DateTimeFormat([], { timeZone: zone });
    return zone;
  } catch {
    return undefined; // storage is closed to us, or names no zone: as the system has it
  }
}

/** `1 dataset`, `3 datasets`. */
export function formatCount(count, thing) {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

const NAMED_NUMBERS = new Set(["Infinity", "-Infinity", "NaN"]); // as results write what JSON lacks

/** Whether a value in a result is a number, or missing. */
export function isNumber(value) {
  return typeof (value ?? 0) === "number" || NAMED_NUMBERS.has(value);
}

/** `1,234`, `0.125`: a number; any other value unchanged. */
export function formatNumber(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 20 });
}

/** `1.2 MB/s`, or `4,810 rows/s` with a `unit`; null is empty. */
export function formatRate(value, unit = null) {
  if (value === null || value === undefined) return "";
  if (unit === null) return `${formatBytes(value)}/s`;
  return `${value < 99.5 ? threeDigits(value) : formatNumber(Math.round(value))} ${unit}/s`;
}

/** `12.5 %` of a share. */
export function formatShare(value) {
  return `${threeDigits(value * 100)} %`;
}

/** Words as a sentence: `the store is away` becomes `The store is away.`; the name of a dataset stays as it is. */
export function sentence(text) {
  const first = text.split(" ", 1)[0];
  return `${/[/@]/.test(first) ? text.slice(0, 1) : text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
