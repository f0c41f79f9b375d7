// Creates elements from plain values. Text is always text: no module parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu; // invisible characters, and those that change the direction of writing

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
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(visible(child));
  }
  return element;
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
 * A table of columns `{title, cell, number, wide}`; the rows of the body are in the order given.
 * `key` identifies each row across updates of the table.
 */
export function table(caption, columns, rows, key = () => null) {
  const alignmentOf = (column) => (column.number ? "number" : column.wide && "wide");
  const head = columns.map((column) => h("th", { scope: "col", class: alignmentOf(column) }, column.title));
  const line = (row) => columns.map((column) => h("td", { class: alignmentOf(column) }, column.cell(row)));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows.map((row) => h("tr", { "data-key": key(row) }, line(row))))),
  );
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
