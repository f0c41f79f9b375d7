// Calls the REST API with the session of the browser's user; without a session, Airflow's login follows.

import { noteLogin, openLoginOnce } from "./airflow_window.js";

const ROOT = "../api/v1/";
const PATIENCE = 60_000; // milliseconds that a request for data may take
const BAD_TOKEN = "Invalid JWT token"; // Airflow answers 403 with it, and means 401

/** The response of a request; the error of one that nobody answers has the `status` 0. */
async function request(place, options) {
  let response;
  try {
    response = await fetch(ROOT + place, options);
  } catch {
    throw Object.assign(new Error("Airflow's API server does not answer"), { status: 0 });
  }
  return requireOk(response);
}

/** Throw the error of a failed response, with its `status`, and the `line` and `column` of wrong SQL if they are known. */
async function requireOk(response) {
  if (response.ok) {
    noteLogin();
    return response;
  }
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // not JSON: a proxy answered; only its status is known
  }
  const detail = problem.detail ?? (response.statusText || `status ${response.status}`);
  const status = detail === BAD_TOKEN ? 401 : response.status;
  if (status === 401) openLoginOnce();
  throw Object.assign(new Error(detail), { status, line: problem.line ?? null, column: problem.column ?? null });
}

/** The route of a dataset; a path keeps its slashes. */
export function datasetUrl(path) {
  return `datasets/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** The route of a part of one generation: `schema`, `rows`, `lineage` or `comparison`. */
export function generationUrl({ path, generation }, part) {
  return `${datasetUrl(path)}@${generation}/${part}`;
}

/** The route of a stream job, or of a part of it. */
export function jobUrl(job, ...below) {
  return ["streams", encodeURIComponent(job), ...below].join("/");
}

/** The query string of these values, without the empty ones. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return text && `?${text}`;
}

/** The text of a response. */
export async function get(place) {
  const response = await request(place, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE) });
  return response.text();
}

/** POST JSON and return the response. JSON, so that a form of another site cannot send it. */
export async function post(place, body, method = "POST") {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  const response = await request(place, { method, headers, body: JSON.stringify(body) });
  return response.json();
}

/** PUT JSON and return the response. */
export function put(place, body) {
  return post(place, body, "PUT");
}
