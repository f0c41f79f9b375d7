// Panning and zooming of a large element inside of a smaller one, by one transformation.

const LEAST = 0.1;
const MOST = 2;
const READABLE = 0.72; // the least scale of the first picture
const LARGEST = 1.25; // and the greatest
const STEP = 1.1; // of the wheel
const STILL = 600; // milliseconds after the last movement
const AROUND = 12; // pixels around what is revealed

/**
 * Show `world` inside of `element`, which becomes as high as the world at the first scale, or as its style allows.
 * `resize(width, height)` is called with the size of the world, `zoom(by)` from its buttons (0: all of it), and
 * `reveal({x, y, width, height})` moves a part of the world into view.
 */
export function makeViewport(element, world) {
  let size = { width: 1, height: 1 };
  let view = null; // {x, y, scale}
  let room = { width: 1, height: 1 }; // of the element
  let timer = 0;

  function draw() {
    const bound = (at, free, length) => Math.min(0, Math.max(at, free - length));
    view.x = bound(view.x, room.width, size.width * view.scale);
    view.y = bound(view.y, room.height, size.height * view.scale);
    world.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
    element.classList.add("moving"); // composed from what is painted, until it stands still
    clearTimeout(timer);
    timer = setTimeout(() => element.classList.remove("moving"), STILL);
  }

  function measure() {
    room = { width: element.clientWidth, height: element.clientHeight };
  }

  function fitWidth() {
    return Math.max(READABLE, Math.min(LARGEST, room.width / size.width));
  }

  function resize(width, height) {
    size = { width, height };
    world.style.width = `${width}px`;
    world.style.height = `${height}px`;
    measure();
    view ??= { x: 0, y: 0, scale: fitWidth() };
    element.style.height = `${Math.ceil(height * Math.max(view.scale, fitWidth())) + 2}px`;
    measure();
    draw();
  }

  /** Change the scale; the point at `x`, `y` of the element stays where it is. */
  function rescale(scale, x, y) {
    const next = Math.min(MOST, Math.max(LEAST, scale));
    view.x = x - ((x - view.x) * next) / view.scale;
    view.y = y - ((y - view.y) * next) / view.scale;
    view.scale = next;
    draw();
  }

  function zoom(by) {
    rescale(by ? view.scale * by : Math.min(1, room.width / size.width, room.height / size.height), room.width / 2, room.height / 2);
  }

  function reveal({ x, y, width, height }) {
    const into = (at, length, shift, free) => {
      const [first, last] = [at * view.scale + shift - AROUND, (at + length) * view.scale + shift + AROUND];
      return first < 0 ? shift - first : last > free ? shift - (last - free) : shift;
    };
    view.x = into(x, width, view.x, room.width);
    view.y = into(y, height, view.y, room.height);
    draw();
  }

  /** Whether a wheel would move the world: otherwise it moves the page. */
  function canMove(down) {
    const end = room.height - size.height * view.scale;
    return down < 0 ? view.y < 0 : view.y > end + 1;
  }

  element.addEventListener("wheel", (event) => {
    if (!view || (!event.ctrlKey && !event.deltaX && !canMove(event.deltaY))) return;
    event.preventDefault();
    if (event.ctrlKey) {
      const box = element.getBoundingClientRect();
      rescale(view.scale * (event.deltaY < 0 ? STEP : 1 / STEP), event.clientX - box.left, event.clientY - box.top);
      return;
    }
    view.x -= event.shiftKey ? event.deltaY : event.deltaX;
    view.y -= event.shiftKey ? 0 : event.deltaY;
    draw();
  }, { passive: false });

  let from = null; // where a drag began
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest("a, [role=button]")) return;
    from = { x: event.clientX - view.x, y: event.clientY - view.y };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!from) return;
    view.x = event.clientX - from.x;
    view.y = event.clientY - from.y;
    draw();
  });
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => { from = null; });
  element.addEventListener("scroll", () => element.scrollTo(0, 0)); // a focused card would scroll it
  new ResizeObserver(() => {
    measure();
    if (view) draw();
  }).observe(element);
  return { resize, zoom, reveal };
}
