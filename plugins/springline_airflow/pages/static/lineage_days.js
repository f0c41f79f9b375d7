// The partitions of the picture as one strip: the worst state of each, and which one is selected.

import { h, write } from "./elements.js";
import { STATE_OF, columnAt, strip } from "./lineage_strip.js";

const MARGIN = 2;
const LEAST = 320; // pixels of the texts below the strip
const SHAPE = { height: 22, widest: 160 };

/** The strip; `select(column)` is called when a person chooses one. `show(answer)` and `mark(column)` renew it. */
export function makeDays(select) {
  const slider = h("div", { class: "days", role: "slider", tabindex: 0, "aria-label": "Partition", "aria-valuemin": 0 });
  const [first, last, chosen] = [h("bdi"), h("bdi"), h("bdi", { class: "chosen" })];
  const ends = h("p", { class: "ends" }, first, chosen, last);
  const element = h("div", { class: "days-line" }, slider, ends);
  let picture = { partitions: [], overall: "" };
  let marked = -1;

  const width = () => Math.max(slider.clientWidth - MARGIN, 1);

  function draw() {
    element.hidden = !picture.partitions.length;
    slider.replaceChildren(strip(picture.overall, width(), marked, SHAPE));
    ends.style.width = `${Math.max(Math.min(width(), SHAPE.widest * picture.partitions.length), LEAST)}px`;
    write(first, picture.partitions[0] ?? "");
    write(last, picture.partitions.at(-1) ?? "");
    const words = marked < 0 ? "" : `${picture.partitions[marked]}: ${STATE_OF[picture.overall[marked]] || "none"}`;
    write(chosen, words);
    slider.setAttribute("aria-valuemax", Math.max(picture.partitions.length - 1, 0));
    slider.setAttribute("aria-valuenow", Math.max(marked, 0));
    slider.setAttribute("aria-valuetext", words || `no partition selected, ${picture.partitions.length} shown`);
  }

  const columnOf = (event) => columnAt(picture.overall, width(), event.clientX - slider.getBoundingClientRect().left - MARGIN / 2, SHAPE.widest);

  slider.addEventListener("mousemove", (event) => {
    const i = columnOf(event);
    slider.title = i < 0 ? "" : `${picture.partitions[i]}: ${STATE_OF[picture.overall[i]] || "none"}`;
  });
  slider.onclick = (event) => {
    const i = columnOf(event);
    select(i === marked ? -1 : i);
  };
  slider.onkeydown = (event) => {
    const count = picture.partitions.length;
    const here = marked < 0 ? count : marked;
    const next = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: count - 1, Escape: -1 }[event.key];
    if (next === undefined || !count) return;
    event.preventDefault();
    select(Math.min(next, count - 1));
  };
  new ResizeObserver(draw).observe(slider);
  return {
    element,
    show: (answer) => { picture = answer; draw(); },
    mark: (column) => { marked = column; draw(); },
  };
}
