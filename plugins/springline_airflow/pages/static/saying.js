// How sizes, durations and moments are said, as the command line says them.

function three(value) {
  return value >= 99.5 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

/** `512 B`, `1.2 GB`: powers of 1000. */
export function sayBytes(size) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (Math.abs(size) < 999.5) return unit === "B" ? `${Math.round(size)} B` : `${three(size)} ${unit}`;
    size /= 1000;
  }
  return `${three(size)} TB`;
}

/** `21 ms`, `3.4 s`, `3 min 20 s`, `2.5 h`, `12 days`; null is `?`. */
export function saySeconds(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  if (seconds < 0.9995) return `${three(seconds * 1000)} ms`;
  if (seconds < 99.5) return `${three(seconds)} s`;
  if (seconds < 3600) {
    const whole = Math.round(seconds);
    const rest = whole % 60;
    return rest ? `${Math.floor(whole / 60)} min ${rest} s` : `${Math.floor(whole / 60)} min`;
  }
  if (seconds < 48 * 3600) return `${three(seconds / 3600)} h`;
  return `${three(seconds / 86400)} days`;
}

/** A moment (seconds since 1970) in the reader's own zone; null is empty. */
export function sayTime(at) {
  return at === null || at === undefined ? "" : new Date(at * 1000).toLocaleString();
}

/** `1 dataset`, `3 datasets`. */
export function counted(count, thing) {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

/** `1,234`, `0.125`: a number of anything; what is none is said as it is. */
export function sayNumber(value) {
  if (typeof value !== "number") return value === null || value === undefined ? "" : String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(5)).toLocaleString("en", { maximumFractionDigits: 20 });
}

/** `1.2 MB/s`; null is empty. */
export function sayRate(value) {
  return value === null || value === undefined ? "" : `${sayBytes(value)}/s`;
}

/** `12.5 %` of a share. */
export function sayShare(value) {
  return `${three(value * 100)} %`;
}

/** Words as a sentence: `the store is away` becomes `The store is away.` */
export function sentence(words) {
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}
