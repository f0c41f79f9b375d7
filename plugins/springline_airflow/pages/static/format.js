// Texts of sizes, durations and times, as in the commands' output.

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

/** A moment (seconds since 1970) in the reader's own zone; null is empty. */
export function formatTime(timestamp) {
  return timestamp === null || timestamp === undefined ? "" : new Date(timestamp * 1000).toLocaleString();
}

/** `1 dataset`, `3 datasets`. */
export function formatCount(count, thing) {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

/** `1,234`, `0.125`: a number; any other value unchanged. */
export function formatNumber(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 20 });
}

/** `1.2 MB/s`; null is empty. */
export function formatRate(value) {
  return value === null || value === undefined ? "" : `${formatBytes(value)}/s`;
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
