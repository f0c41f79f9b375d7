// Updates elements in place: what the user opened, focused, selected or scrolled to stays.
//
// An element that draws itself has a property `drawing`, what is drawn, and a method `redraw`. It is given the new drawing
// instead of new children, and keeps its size and the moment that the user points at.

import { visible } from "./elements.js";

const LISTENERS = ["onclick", "onchange", "onsubmit"]; // the listeners that the pages use
const THEIRS = new Set(["open"]); // only the user opens and closes details

/** Make the content of `place` look like `incoming`, nodes and text as `append` takes them. */
export function morph(place, ...incoming) {
  const focused = document.activeElement;
  const fresh = document.createDocumentFragment();
  fresh.append(...incoming.map(visible));
  match(place, fresh);
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function match(old, fresh) {
  const keyed = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let next = old.firstChild; // the first node that is not compared yet
  for (const incoming of [...fresh.childNodes]) {
    const key = keyOf(incoming);
    while (!key && next && keyOf(next)) next = next.nextSibling;
    const candidate = key ? keyed.get(key) : next;
    const reused = candidate && alike(candidate, incoming) ? candidate : null;
    if (!reused) {
      old.insertBefore(incoming, next);
      continue;
    }
    keyed.delete(key);
    if (reused === next) next = next.nextSibling;
    else old.insertBefore(reused, next);
    renew(reused, incoming);
  }
  for (const stale of keyed.values()) {
    if (stale === next) next = next.nextSibling;
    stale.remove();
  }
  while (next) {
    const stale = next;
    next = next.nextSibling;
    stale.remove();
  }
}

function keyOf(node) {
  return node.dataset?.key;
}

function alike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh)
    && Boolean(old.drawing) === Boolean(fresh.drawing);
}

function renew(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !THEIRS.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of LISTENERS) old[name] = fresh[name];
  if (fresh.drawing) {
    old.drawing = fresh.drawing;
    old.redraw();
    return;
  }
  match(old, fresh);
}
