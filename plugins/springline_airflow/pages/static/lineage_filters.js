// The filter of the lineage: fields with completion, and the values that are in the address.

import { get, query } from "./api.js";
import { h } from "./elements.js";
import { queryValue } from "./shell.js";
import { STATES } from "./states.js";

const FIELDS = [["dag_id", "DAG"], ["run_id", "DAG run"], ["task_id", "Task"], ["prefix", "Path prefix"]];
const RANGE = [["first", "From"], ["last", "To"]];
const GROUPINGS = [["", "Auto"], ["none", "None"], ["stage", "Operation"], ["dag", "DAG"]];
const PAUSE = 150; // milliseconds after a key before values are requested

/** The form; `onChange` is called when a value changes. `values()` returns all, `clear()` empties them. */
export function makeFilters(onChange) {
  const inputs = new Map();
  const field = ([name, title]) => {
    const list = h("datalist", { id: `${name}-values` });
    const input = h("input", {
      name, value: queryValue(name), type: "search", list: list.id, autocomplete: "off", spellcheck: "false", dir: "auto",
      onchange: onChange,
    });
    complete(input, list, name === "first" || name === "last" ? "partition" : name, () => inputs.get("dag_id").value);
    inputs.set(name, input);
    return h("label", { class: name }, title, input, list);
  };
  const choice = (name, title, options) => {
    const select = h("select", { name, onchange: onChange }, options.map(([value, text]) =>
      h("option", { value, selected: value === queryValue(name) }, text)));
    inputs.set(name, select);
    return h("label", {}, title, select);
  };
  const form = h("form", { class: "asked", "aria-label": "Filter", onsubmit: (event) => event.preventDefault() },
    FIELDS.map(field), RANGE.map(field),
    choice("state", "State", [["", "Any"], ...STATES.map((state) => [state, state])]), choice("grouping", "Group by", GROUPINGS));
  return {
    form,
    values: () => Object.fromEntries([...inputs].map(([name, input]) => [name, input.value.trim()])),
    isEmpty: () => [...inputs].every(([name, input]) => name === "grouping" || !input.value),
    clear: () => inputs.forEach((input) => { input.value = ""; }),
  };
}

/** Offer values that contain what is typed. */
function complete(input, list, name, dag) {
  let timer = 0;
  async function offer() {
    try {
      const place = `lineage/values${query({ field: name, text: input.value, dag_id: name === "dag_id" ? "" : dag() })}`;
      const { values } = JSON.parse(await get(place));
      list.replaceChildren(...values.map((value) => h("option", { value })));
    } catch {
      // without completion a value can still be typed
    }
  }
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(offer, PAUSE);
  };
  input.addEventListener("input", later);
  input.addEventListener("focus", later);
}
