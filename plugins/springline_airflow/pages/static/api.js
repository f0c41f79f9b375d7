// Asks the API, as the user whose session the browser holds.

const ROOT = "../api/v1/";

/** An answer that is none throws what is wrong, with its `status`, and the `line` and `column` of wrong SQL, where known. */
async function requireOk(response) {
  if (response.ok) return response;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // no JSON: a proxy answered, its status has to do
  }
  const error = new Error(problem.detail ?? (response.statusText || `status ${response.status}`));
  throw Object.assign(error, { status: response.status, line: problem.line ?? null, column: problem.column ?? null });
}

/** The address of a dataset below the API; a path keeps its slashes. */
export function datasetUrl(path) {
  return `datasets/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** The address of a stream job below the API, or of what is below the job. */
export function jobUrl(job, ...below) {
  return ["streams", encodeURIComponent(job), ...below].join("/");
}

/** The query that names these values; those that are empty are left out. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(pairs).toString();
  return text && `?${text}`;
}

/** The text of an answer. */
export async function get(place) {
  const response = await fetch(ROOT + place, { headers: { Accept: "application/json" } });
  return (await requireOk(response)).text();
}

/** The answer to something that may change the world. JSON, so that no other site can send it from a form. */
export async function post(place, body, method = "POST") {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  const response = await fetch(ROOT + place, { method, headers, body: JSON.stringify(body) });
  return (await requireOk(response)).json();
}

/** The same, for what is to be so from now on. */
export function put(place, body) {
  return post(place, body, "PUT");
}
