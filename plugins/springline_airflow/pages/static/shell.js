// What all pages share: links between them, light and dark as Airflow has it, and staying up to date.

import { get } from "./api.js";
import { h, write } from "./elements.js";

const PAGES = [["lineage", "Lineage"], ["queue", "Queue"], ["risk", "At risk"], ["dataset", "Dataset"],
  ["streams", "Streams"]];
const EVERY = 3000; // milliseconds between two looks

/** The value of the address's query called `name`, or nothing. */
export function queryValue(name) {
  return new URLSearchParams(location.search).get(name) ?? "";
}

function followTheme() {
  let chosenTheme = null;
  try {
    chosenTheme = localStorage.getItem("theme"); // Airflow keeps its own there
  } catch {
    // storage is closed to us: as the system has it
  }
  const dark = chosenTheme === "dark" || (chosenTheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

/** Put the links and the theme in place. */
export function frame(here) {
  followTheme();
  addEventListener("storage", followTheme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", followTheme);
  const links = PAGES.map(([page, title]) => h("a", { href: page, "aria-current": page === here && "page" }, title));
  document.getElementById("nav").replaceChildren(...links);
}

/** A link to one of Airflow's own pages; our frame may not lead its parent away, so the parent follows it itself. */
export function airflowLink(address, text) {
  const follow = (event) => {
    if (window.parent === window) return;
    event.preventDefault();
    const link = window.parent.document.createElement("a");
    link.href = event.currentTarget.href;
    window.parent.document.body.append(link);
    link.click();
    link.remove();
  };
  return h("a", { href: `../../${address}`, onclick: follow }, text);
}

/** Say how things are, below the title. */
export function showStatus(text, wrong = false) {
  const status = document.getElementById("status");
  write(status, text);
  status.classList.toggle("wrong", wrong);
}

/**
 * Ask again and again while the page is looked at, and call `show` when the answer is another one.
 * `place` gives what to ask for; `onError` says what is wrong, with the answer's status, and that nothing is any more;
 * `every` is in milliseconds.
 * Returns a function that asks at once.
 */
export function poll(place, show, onError = showStatus, every = EVERY) {
  let last = null;
  let timer = 0;
  let turn = 0;
  async function refresh() {
    clearTimeout(timer);
    const mine = ++turn;
    try {
      const text = await get(place());
      if (mine !== turn) return; // somebody asked for something else meanwhile
      if (text !== last) show(JSON.parse(text));
      last = text;
      onError("");
    } catch (error) {
      if (mine !== turn) return;
      onError(error.message, true, error.status);
    }
    if (!document.hidden) timer = setTimeout(refresh, every);
  }
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  refresh();
  return refresh;
}
