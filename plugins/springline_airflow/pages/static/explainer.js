// Why is this dataset not persisted? A box for its path, and the answer, whether it is in the queue or not.

import { get, query } from "./api.js";
import { h, write } from "./elements.js";
import { sentence } from "./format.js";
import { morph } from "./morph.js";
import { ended } from "./notice.js";
import { datasetLink } from "./dataset_links.js";
import { persistButton } from "./persist_button.js";
import { queryValue } from "./shell.js";

const SUGGESTED = "paths";
const VERDICTS = {
  persisted: "Persisted", copying: "Persisting", stalled: "Its worker does not respond", queued: "Queued",
  retrying: "Failed, and tried again", "not requested": "Not to be persisted", uncommitted: "Not committed",
  irrecoverable: "Irrecoverable", removed: "Retired or abandoned",
};

/** A path with or without the number of a generation: `etl/clean`, `etl/clean@3`. */
export function parseName(text) {
  const [, path, generation] = text.trim().match(/^(.*?)(?:@(\d{1,9}))?$/);
  return { path, generation: generation ?? null };
}

/** The form and the place of the answer; `refresh` asks again; `suggest` offers paths; `onDone` is called after an action. */
export function explainer(onDone) {
  const input = h("input", { name: "path", type: "search", list: SUGGESTED, size: 40, placeholder: "etl/2013-01-05/clean", value: queryValue("explain"),
    autocomplete: "off", spellcheck: "false" });
  const suggestions = h("datalist", { id: SUGGESTED });
  const form = h("form", { class: "asked", role: "search", onsubmit: submit },
    h("label", {}, "Why is this dataset not persisted?", input), suggestions, h("button", { type: "submit" }, "Explain"));
  const failure = h("p", { class: "trouble", role: "status" });
  const place = h("div", { "aria-live": "polite" });
  let asked = input.value;

  function submit(event) {
    event.preventDefault();
    asked = input.value;
    history.replaceState(null, "", `queue${query({ ...Object.fromEntries(new URLSearchParams(location.search)), explain: asked })}`);
    refresh();
  }

  async function refresh() {
    const mine = asked;
    if (!mine.trim()) {
      morph(place);
      write(failure, "");
      return;
    }
    try {
      const answer = JSON.parse(await get(`queue/explain${query(parseName(mine))}`));
      if (mine !== asked) return; // another dataset was asked for meanwhile
      morph(place, answerOf(answer));
      write(failure, "");
    } catch (error) {
      if (mine !== asked) return;
      morph(place);
      write(failure, error.message);
      failure.classList.add("wrong");
    }
  }

  function answerOf(answer) {
    return h("div", { class: "answer" },
      h("p", {}, h("strong", {}, VERDICTS[answer.state] ?? answer.state), ": ", datasetLink(answer)),
      h("p", {}, sentence(answer.sentence)),
      answer.wait_reason && h("p", {}, `Nothing is taken from the queue now: ${ended(answer.wait_reason)}`),
      answer.can_expedite && h("p", { class: "buttons" }, persistButton(answer, moved)),
      answer.refusal && h("p", { class: "refused" }, `Not permitted: ${ended(answer.refusal)}`));
  }

  function moved() {
    refresh();
    onDone();
  }

  function suggest(paths) {
    const distinct = [...new Set(paths)];
    if (distinct.join("\n") === [...suggestions.children].map((each) => each.value).join("\n")) return;
    suggestions.replaceChildren(...distinct.map((path) => h("option", { value: path })));
  }

  return { parts: [form, failure, place], refresh, suggest };
}
