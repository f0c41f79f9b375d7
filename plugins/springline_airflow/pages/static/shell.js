// What all pages share: the navigation, Airflow's light or dark theme, and periodic updates.

import { get } from "./api.js";
import { leadAirflow } from "./airflow_window.js";
import { banner } from "./banner.js";
import { h } from "./elements.js";

const PAGES = [["lineage", "Lineage"], ["queue", "Queue"], ["risk", "At risk"], ["dataset", "Dataset"],
  ["streams", "Streams"]];
const EVERY = 3000; // milliseconds between two requests
const NO_ANSWER = 0;
const UNAUTHORISED = 401;

let showBanner = null; // of the page
let isPolled = false; // whether the page itself has a request that is repeated

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
  document.documentElement.classList.toggle("nested", isBelowTabs());
  const links = PAGES.map(([page, title]) => h("a", { href: page, "aria-current": page === here && "page" }, title));
  document.getElementById("nav").replaceChildren(...links);
}

/** Whether Airflow shows the page below its own tabs, of a DAG, a run or a task. */
function isBelowTabs() {
  return window.parent !== window && window.parent.location.pathname.includes("/dags/");
}

/** A link to one of Airflow's own pages. */
export function airflowLink(address, text) {
  const follow = (event) => {
    if (window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    leadAirflow(event.currentTarget.href);
  };
  return h("a", { href: `../../${address}`, onclick: follow }, text);
}

/** Show the status of the page, beside the navigation; a failure below it. */
export function showStatus(text, wrong = false, status = 0, outage = {}) {
  const said = document.getElementById("status");
  showBanner ??= banner(said.parentElement, said);
  showBanner(text, wrong ? { status, ...outage } : null);
}

/** Whether the page's own banner says that requests end with this status: all do, so its sections need not say it too. */
export function isSaidByPage(status) {
  return isPolled && (status === NO_ANSWER || status === UNAUTHORISED);
}

/**
 * Request `place` periodically while the page is visible, and call `show` when the response changes.
 * `place` returns the route; `every` is in milliseconds. `onError` is called with an error, its status and the outage
 * (`failedAt`, `shownAt`, `retry`, see banner.js), and with an empty text when it is over. `isPage`: the page itself waits
 * for the first response.
 * Returns a function that requests at once.
 */
export function poll(place, show, onError = showStatus, every = EVERY, isPage = onError === showStatus) {
  const main = isPage ? document.getElementById("main") : null;
  let last = null;
  let timer = 0;
  let turn = 0;
  let failedAt = null;
  let shownAt = null;
  if (main) {
    isPolled = true;
    main.setAttribute("aria-busy", "true");
    showStatus("loading …");
  }
  async function refresh() {
    clearTimeout(timer);
    const mine = ++turn;
    try {
      const text = await get(place());
      if (mine !== turn) return; // another request was made meanwhile
      if (text !== last) show(JSON.parse(text));
      last = text;
      failedAt = null;
      shownAt = Date.now();
      onError("");
    } catch (error) {
      if (mine !== turn) return;
      failedAt ??= Date.now();
      onError(error.message, true, error.status ?? null, { failedAt, shownAt, retry: refresh });
      if (error.status === UNAUTHORISED) return; // until the user has logged in
    } finally {
      if (mine === turn) main?.removeAttribute("aria-busy");
    }
    if (!document.hidden) timer = setTimeout(refresh, every);
  }
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  refresh();
  return refresh;
}
