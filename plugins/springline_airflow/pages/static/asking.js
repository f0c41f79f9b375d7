// Asks the API, as the user whose session the browser holds.

const ROOT = "../api/v1/";

async function answered(response) {
  if (response.ok) return response;
  let detail = response.statusText || `status ${response.status}`;
  try {
    detail = (await response.json()).detail ?? detail;
  } catch {
    // no JSON: a proxy answered, its status has to do
  }
  throw new Error(detail);
}

/** The address of a dataset below the API; a path keeps its slashes. */
export function placeOf(path) {
  return `datasets/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** The query that names these values; those that are empty are left out. */
export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return text && `?${text}`;
}

/** The text of an answer. */
export async function get(place) {
  const response = await fetch(ROOT + place, { headers: { Accept: "application/json" } });
  return (await answered(response)).text();
}

/** The answer to something that may change the world. JSON, so that no other site can send it from a form. */
export async function post(place, body) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  const response = await fetch(ROOT + place, { method: "POST", headers, body: JSON.stringify(body) });
  return (await answered(response)).json();
}
