// Calls the REST API with the session of the browser's user.

const ROOT = "../api/v1/";

/** Throw the error of a failed response, with its `status`, and the `line` and `column` of wrong SQL if they are known. */
async function requireOk(response) {
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // not JSON: a proxy answered; only its status is known
  }
  const error = new Error(problem.detail ?? (response.statusText || `status ${response.status}`));
  throw Object.assign(error, { status: response.status, line: problem.line ?? null, column: problem.column ?? null });
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
  const response = await fetch(ROOT + place, { headers: { Accept: "application/json" } });
  return (await requireOk(response)).text();
}

/** POST JSON and return the response. JSON, so that a form of another site cannot send it. */
export async function post(place, body, method = "POST") {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  const response = await fetch(ROOT + place, { method, headers, body: JSON.stringify(body) });
  return (await requireOk(response)).json();
}

/** PUT JSON and return the response. */
export function put(place, body) {
  return post(place, body, "PUT");
}
