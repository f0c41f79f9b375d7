// The window of Airflow around our frame: leads it to another address, to the login and back.

const LOGIN = "../../api/v2/auth/login";
const MARK = "springline-login"; // when the last request without a login led there
const AGAIN = 60_000; // milliseconds before a request may lead there again

let ledAt = 0; // the same where storage is closed to us

/** Open an address in Airflow's window; our frame may not lead its parent away, so the parent follows a link itself. */
export function leadAirflow(href) {
  if (window.parent === window) {
    location.assign(href);
    return;
  }
  const link = window.parent.document.createElement("a");
  link.href = new URL(href, location.href).href;
  window.parent.document.body.append(link);
  link.click();
  link.remove();
}

/** Open Airflow's login, which leads back to the page that is open now. */
export function openLogin() {
  const { pathname, search, hash } = window.parent.location;
  leadAirflow(`${LOGIN}?${new URLSearchParams({ next: pathname + search + hash })}`);
}

/** The same for a request that was refused, unless one has led there just before: it cannot lead in circles. */
export function openLoginOnce() {
  const now = Date.now();
  if (now - lastLed() < AGAIN) return;
  ledAt = now;
  store((storage) => storage.setItem(MARK, String(now)));
  openLogin();
}

/** Note that the user is logged in: the next refused request leads to the login at once. */
export function noteLogin() {
  if (!ledAt && !lastLed()) return;
  ledAt = 0;
  store((storage) => storage.removeItem(MARK));
}

function lastLed() {
  return Math.max(ledAt, Number(store((storage) => storage.getItem(MARK)) ?? 0));
}

function store(use) {
  try {
    return use(sessionStorage);
  } catch {
    return null; // storage is closed to us
  }
}
