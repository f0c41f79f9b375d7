// What all pages share: the navigation, Airflow's light or dark theme, and periodic updates.

import { get } from "./api.js";
import { h, write } from "./elements.js";

const PAGES = [["lineage", "Lineage"], ["queue", "Queue"], ["risk", "At risk"], ["dataset", "Dataset"],
  ["streams", "Streams"]];
const EVERY = 3000; // milliseconds between two requests

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

/** Show the status line below the title. */
export function showStatus(text, wrong = false) {
  const status = document.getElementById("status");
  write(status, text);
  status.classList.toggle("wrong", wrong);
}

/**
 * Request `place` periodically while the page is visible, and call `show` when the response changes.
 * `place` returns the route; `onError` is called with an error and its status, and with none when it is over;
 * `every` is in milliseconds.
 * Returns a function that requests at once.
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
      if (mine !== turn) return; // another request was made meanwhile
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
