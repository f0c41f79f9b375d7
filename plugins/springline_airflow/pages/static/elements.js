// Creates elements from plain values. Text is always text: no module parses HTML.

import { formatTime, shortTime } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu; // invisible characters, and those that change the direction of writing
const BREAKABLE = new Set(["A", "CODE", "DD", "H2", "H3", "LI", "P", "SPAN", "STRONG", "SUMMARY", "TD", "TH"]);
const LONG = 20; // letters of a text that may be broken after a slash
const NARROW = 14; // letters that stay in one line
const WIDE = 60; // letters that need a wide column

function spelled(letter) {
  if (letter === "\n" || letter === "\t") return letter;
  const number = letter.codePointAt(0).toString(16);
  return number.length > 4 ? `\\U${number.padStart(8, "0")}` : number.length > 2 ? `\\u${number.padStart(4, "0")}` : `\\x${number.padStart(2, "0")}`;
}

/** A text from outside, with invisible characters written as escapes. */
export function visible(child) {
  return typeof child === "string" ? child.replace(UNSEEN, spelled) : child;
}

/** Replace the content of an element by a text. */
export function write(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  const isBreakable = BREAKABLE.has(element.tagName);
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (isBreakable && typeof child === "string") element.append(...breakable(visible(child)));
    else element.append(visible(child));
  }
  return element;
}

/** The parts of a long text between which lines may be broken: after each slash of a path. */
function breakable(text) {
  if (text.length <= LONG || !text.includes("/")) return [text];
  return text.split(/(?<=\/)(?=[^/])/).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part]));
}

/** An HTML element: its attributes (`onclick` and the like are listeners), then its children. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * A table of columns `{title, cell, number, narrow, wide, verbatim}`; the rows of the body are in the order given. `caption` names it
 * for those who do not see it. A column is `narrow` (one line) or `wide` by the texts that it holds, unless it says so itself;
 * a `verbatim` title is a name from outside, and keeps its small letter. `key` identifies each row across
 * updates of the table.
 */
export function table(caption, columns, rows, key = () => null) {
  const cells = rows.map((row) => columns.map((column) => h("td", {}, column.cell(row))));
  const classes = columns.map((column, i) => widthOf(column, cells.map((line) => line[i])));
  cells.forEach((line) => line.forEach((cell, i) => classes[i] && cell.setAttribute("class", classes[i])));
  const head = columns.map((column, i) => h("th", { scope: "col", class: [classes[i], column.verbatim && "verbatim"].filter(Boolean).join(" ") || null }, column.title));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows.map((row, i) => h("tr", { "data-key": key(row) }, cells[i])))),
  );
}

/** The class of a column's width. */
function widthOf({ number, narrow, wide }, cells) {
  if (number) return "number";
  if (narrow) return "narrow";
  if (wide) return "wide";
  const longest = Math.max(0, ...cells.map((cell) => (cell.querySelector("summary") ?? cell).textContent.length));
  if (longest > WIDE) return "wide";
  return longest <= NARROW && !cells.some((cell) => cell.querySelector("p, details, ul")) ? "narrow" : null;
}

/** What stands where nothing is: a title, and what to do. */
export function emptyState(title, ...advice) {
  return h("div", { class: "empty" }, h("p", { class: "title" }, title), advice.length > 0 && h("p", {}, advice));
}

/** A moment (seconds since 1970), as short as it can be said today; nothing for null. */
export function timeElement(timestamp) {
  if (timestamp === null || timestamp === undefined) return "";
  const exact = new Date(timestamp * 1000).toISOString();
  return h("time", { datetime: exact, title: formatTime(timestamp) }, shortTime(timestamp));
}

/** A definition list; names without a value are left out. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, withValues(pairs).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** The same in one line. */
export function tiles(pairs) {
  return h("dl", { class: "tiles" }, withValues(pairs).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function withValues(pairs) {
  return pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
}
