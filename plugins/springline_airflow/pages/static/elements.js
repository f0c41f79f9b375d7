// Makes elements out of plain values. Text is always text: nothing here, and nothing elsewhere, parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu; // what nobody sees, and what turns the direction of writing

function spelled(letter) {
  if (letter === "\n" || letter === "\t") return letter;
  const number = letter.codePointAt(0).toString(16);
  return number.length > 4 ? `\\U${number.padStart(8, "0")}` : number.length > 2 ? `\\u${number.padStart(4, "0")}` : `\\x${number.padStart(2, "0")}`;
}

/** A text that came from outside with what nobody sees spelled out; all else stays what it is. */
export function visible(child) {
  return typeof child === "string" ? child.replace(UNSEEN, spelled) : child;
}

/** Let an element hold a text, and nothing else. */
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
 * `key` gives each row a name that it keeps when the table is told anew.
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

/** A list of names with their values; those without a value are left out. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, withValues(pairs).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** The same beside each other, for what is looked at often. */
export function tiles(pairs) {
  return h("dl", { class: "tiles" }, withValues(pairs).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function withValues(pairs) {
  return pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
}
