// Tells what is there anew without taking it away: what a person opened, focused, marked or scrolled to stays.

import { visible } from "./elements.js";

const LISTENERS = ["onclick", "onchange", "onsubmit"]; // those that elements of a told page have
const THEIRS = new Set(["open"]); // a person opens and closes details, we do not

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
  let next = old.firstChild; // what has not been looked at yet
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
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
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
  match(old, fresh);
}
