// What one key does to a join: a search for its value, and where it is stored, what it probes, whether it is heavy.

import { get, jobUrl, query } from "./api.js";
import { h, table, write } from "./elements.js";
import { formatNumber, formatShare, sentence } from "./format.js";
import { morph } from "./morph.js";

/** The section with the search; `show` looks a key up by the number that routing uses, `describe` names the key columns. */
export function keySearch(job) {
  const columns = h("span", {}, "Key");
  const value = h("input", { type: "search", required: true });
  const side = h("select", {}, h("option", { value: "left" }, "left"), h("option", { value: "right" }, "right"));
  const said = h("p", { class: "trouble said", role: "status" });
  const answer = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "asked", onsubmit: (event) => {
    event.preventDefault();
    look(value.value.trim(), { side: side.value });
  } }, h("label", {}, columns, value), h("label", {}, "Columns of the side", side), h("button", { type: "submit" }, "Look up"));
  const part = h("section", { "aria-label": "Key" }, h("h2", {}, "What does a key do?"), form, said, answer);

  async function look(key, options) {
    write(said, "loading …");
    said.classList.remove("wrong");
    try {
      const reply = JSON.parse(await get(`${jobUrl(job, "join", "keys", encodeURIComponent(key))}${query(options)}`));
      write(said, "");
      morph(answer, ...explanation(reply));
    } catch (error) {
      write(said, error.message);
      said.classList.add("wrong");
      morph(answer);
    }
  }

  function describe(keyColumns) {
    write(columns, keyColumns.map(({ name, type }) => `${name} (${type})`).join(", "));
  }

  function show(key) {
    value.value = key;
    look(key, { encoded: "true" });
    part.scrollIntoView({ block: "nearest" });
  }

  return { part, describe, show };
}

function explanation(reply) {
  const name = reply.values.join(", ");
  return [
    h("p", { class: "summary" }, h("strong", { class: "name" }, name), reply.is_heavy ? " is heavy: " : " is not heavy: ", sentence(reply.reason)),
    table(`The key ${name}`, [
      { title: "side", narrow: true, cell: (each) => each.side },
      { title: "stored on", cell: (each) => shares(each.stores) },
      { title: "probes", narrow: true, cell: ({ probed_units: units }) => (units.length ? `unit${units.length === 1 ? "" : "s"} ${units.join(", ")}` : "no unit") },
      { title: "tuples stored", number: true, cell: tuples },
      { title: "tuples on units", cell: ({ parts }) => Object.entries(parts).map(([unit, count]) => `${unit}: ${formatNumber(count)}`).join(", ") },
      { title: "times probed", number: true, cell: (each) => (each.probes === null ? "" : formatNumber(each.probes)) },
      { title: "routing", wide: true, cell: (each) => each.sentence },
    ], reply.sides, (each) => each.side),
    String(reply.key) !== name && h("p", { class: "faint" }, `Routing uses the number ${reply.key} for it.`),
  ].filter(Boolean);
}

function shares(stores) {
  const units = Object.entries(stores);
  return units.length === 1 ? `unit ${units[0][0]}` : units.map(([unit, share]) => `${unit}: ${formatShare(share)}`).join(", ");
}

function tuples({ tuples: count, at_most: most }) {
  if (count !== null) return formatNumber(count);
  return most ? `at most ${formatNumber(most)}` : "0";
}
