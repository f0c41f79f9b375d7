"""Other sites: they can neither show our pages in theirs, nor send in a user's name what changes something."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import BrowserContext, Page

from springline.airflow.api import PREFIX
from springline.testing.lines import make_dataset as make

PATH = "e2e/wanted"


class Elsewhere(BaseHTTPRequestHandler):
    """An empty page of somebody else's."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Where that page is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A tab whose complaints are wanted here."""
    return context.new_page()


@pytest.fixture(scope="module")
def target(live) -> str:
    """What the other site would like to pin."""
    make(live.platform, PATH, lines=["x"], persist_requested=False)
    return f"{live.address}{PREFIX}/api/v1/datasets/{PATH}/pin"


SEND = """([address, type]) => fetch(address, {
    method: "POST", mode: type === "application/json" ? "cors" : "no-cors", credentials: "include",
    headers: {"Content-Type": type}, body: "{}"}).then((answer) => answer.type, (error) => error.name)"""


def test_what_another_origin_posts_is_refused_though_the_browser_sends_the_login_along(page, live, port, target):
    """A site on another port of this machine counts as the same site for cookies, yet is another origin."""
    page.goto(f"http://127.0.0.1:{port}/")
    responses = []
    page.on(
        "response", lambda answer: answer.url == target and responses.append((answer.request.method, answer.status))
    )
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert page.evaluate(SEND, [target, kind]) == "opaque"
    assert responses == [("POST", 403), ("POST", 403)], "the login came along, else it would be 401"
    assert page.evaluate(SEND, [target, "application/json"]) == "TypeError", "the browser asks first, and is refused"
    assert not live.platform.catalog.resolve(PATH).pinned
    page.goto(f"{live.address}{PREFIX}/pages/queue")
    assert page.evaluate(SEND, [target, "application/json"]) == "basic"
    assert live.platform.catalog.resolve(PATH).pinned, "our own pages may"


def test_another_site_is_not_logged_in(page, port, target):
    """The cookie is for requests of the same site."""
    page.goto(f"http://localhost:{port}/")
    statuses = []
    page.on("response", lambda answer: answer.url == target and statuses.append(answer.status))
    assert page.evaluate(SEND, [target, "text/plain"]) == "opaque"
    assert statuses == [401]


@pytest.mark.parametrize("name", ["lineage", "queue", "risk", "dataset", "streams"])
def test_no_other_origin_can_show_a_page_in_a_frame(page, live, port, name):
    """The same page in a frame of Airflow's own origin is shown."""
    address = f"{live.address}{PREFIX}/pages/{name}"
    put = "(src) => { const frame = document.createElement('iframe'); frame.src = src; document.body.append(frame); }"
    titles = []
    for outer in (f"http://127.0.0.1:{port}/", f"{live.address}/"):
        page.goto(outer)
        with page.expect_event("framenavigated", lambda frame: frame.parent_frame is not None):
            page.evaluate(put, address)
        inner = page.main_frame.child_frames[-1]
        inner.wait_for_load_state()
        titles.append(inner.locator("h1").count() and inner.title())
    assert titles[0] != titles[1] and "Springline" in titles[1]
