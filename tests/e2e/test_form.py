"""Every page in every state of its requests, in both themes, at both ends of the widths; tables with long names."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.airflow.browser import THEMES, assert_for_everybody
from tests.support.airflow.page_files import SITE

API = f"{SITE}/api/v1/**"
LOGIN = f"{SITE}/api/v2/auth/login"
PAGES = ("lineage", "queue", "risk", "dataset?path=etl/a", "streams", "streams?job=words")
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"  # as Airflow's frames
LONG = ("etl/" + "a" * 200, "etl/" + "/".join(["long_part_of_a_path"] * 20), "مجموعة/بيانات/" + "طويل" * 20)


@pytest.fixture
def page(alone) -> Page:
    """A tab for which a test makes the answers."""
    page, _ = alone
    return page


def visit(page: Page, name: str) -> None:
    """Open a page."""
    page.goto(f"{SITE}/pages/{name}")


def answer_all(page: Page, status: int, detail: str) -> None:
    """Answer all requests to the API alike."""
    body = json.dumps({"detail": detail})
    page.route(API, lambda route: route.fulfill(status=status, content_type="application/json", body=body))


# ---- the states of a request


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_waits_says_so_and_does_not_look_empty(page, name):
    """Until the first answer."""
    page.route(API, lambda route: None)
    visit(page, name)
    expect(page.locator("#status")).to_have_text("loading …")
    expect(page.locator("main")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".empty, .failed")).to_have_count(0)
    assert_for_everybody(page)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("status", "detail", "consequence"),
    [
        (503, "the catalog does not answer", r"^No answer since \d.*; it is requested again every few seconds\.$"),
        (403, "you may not read the DAG etl", r"^An administrator of Airflow can give you this permission\.$"),
    ],
)
def test_a_page_that_fails_says_what_failed_and_what_follows(page, name, status, detail, consequence):
    """The first request too: since when there is no answer, or who can give the permission; a person can retry."""
    answer_all(page, status, detail)
    visit(page, name)
    banner = page.locator("header .banner.failed")
    expect(banner.locator("#status.wrong")).to_have_text(detail)
    expect(banner.locator(".holds")).to_have_text(re.compile(consequence))
    expect(page.locator("[aria-busy]")).to_have_count(0)
    assert_for_everybody(page)
    with page.expect_request(API):
        banner.get_by_role("button", name="Retry now").click()


@pytest.mark.parametrize("theme", THEMES)
def test_a_page_follows_the_theme_of_airflow(page, theme):
    """When it is chosen, too."""
    page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    page.route(API, lambda route: None)
    visit(page, "queue")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    other = next(each for each in THEMES if each != theme)
    page.evaluate(
        "(theme) => { localStorage.setItem('theme', theme); dispatchEvent(new StorageEvent('storage')); }", other
    )
    assert page.evaluate("document.documentElement.dataset.theme") == other


def test_what_was_shown_stays_and_is_marked_while_a_request_fails(alone):
    """Until it succeeds again."""
    page, answers = alone
    answers["streams"] = (200, {"streams": []})
    visit(page, "streams")
    expect(page.locator(".empty")).to_be_visible()
    answers["streams"] = (503, {"detail": "the catalog does not answer"})
    banner = page.locator("header .banner.failed")
    expect(banner).to_contain_text("What is shown was true at ")
    expect(page.locator(".empty")).to_be_visible()
    top = page.locator("nav").bounding_box()
    answers["streams"] = (200, {"streams": []})
    banner.get_by_role("button", name="Retry now").click()
    expect(page.locator(".failed")).to_have_count(0)
    assert page.locator("nav").bounding_box() == top


def test_a_server_that_does_not_answer_at_all_is_named_once(page):
    """The browser's own words would be of no help, and sections need not repeat it."""
    page.route(API, lambda route: route.abort())
    visit(page, "risk")
    expect(page.locator("#status.wrong")).to_have_text("Airflow's API server does not answer")
    expect(page.locator("[aria-busy]")).to_have_count(0)
    expect(page.locator(".failed")).to_have_count(1)


# ---- without a login


def blank(route: Route) -> None:
    """A page of Airflow's."""
    route.fulfill(content_type="text/html", body="<!doctype html><title>Airflow</title><p>Sign in</p>")


def next_of(page: Page) -> str:
    """Where the login leads back to."""
    return parse_qs(urlsplit(page.url).query)["next"][0]


@pytest.mark.parametrize("name", PAGES)
def test_without_a_login_a_page_leads_to_it_and_back(page, name):
    """With the query of the page."""
    page.route(f"{LOGIN}**", blank)
    answer_all(page, 401, "Not authenticated")
    visit(page, name)
    page.wait_for_url(f"{LOGIN}**")
    assert next_of(page) == f"/pages/{name}"


@pytest.mark.parametrize(("status", "detail"), [(401, "Token Expired"), (403, "Invalid JWT token")])
def test_a_login_that_is_over_is_none(alone, status, detail):
    """However Airflow says so."""
    page, answers = alone
    page.route(f"{LOGIN}**", blank)
    answers["streams"] = (200, {"streams": []})
    page.goto(f"{SITE}/pages/streams")
    expect(page.locator(".empty")).to_be_visible()
    answers["streams"] = (status, {"detail": detail})
    page.wait_for_url(f"{LOGIN}**")
    assert next_of(page) == "/pages/streams"


@pytest.mark.parametrize("name", PAGES)
def test_in_a_frame_the_window_of_airflow_is_led_to_the_login_and_back(page, name):
    """Not the frame: the login belongs to the window."""
    page.route(f"{LOGIN}**", blank)
    answer_all(page, 401, "Token Expired")
    frame = f"<iframe title=ours sandbox='{SANDBOX}' src=/pages/{name}></iframe>"
    body = f"<!doctype html><title>Airflow</title>{frame}"
    page.route(f"{SITE}/dags/**", lambda route: route.fulfill(content_type="text/html", body=body))
    place = "/dags/etl/plugin/springline-lineage-dag?tab=1#here"
    page.goto(f"{SITE}{place}")
    page.wait_for_url(f"{LOGIN}**")
    assert next_of(page) == place


def test_a_login_that_does_not_help_leads_nowhere_in_circles(page):
    """Once; then the page says so, and a person may try again."""
    asked = []
    page.on("request", lambda request: asked.append(request.url) if LOGIN in request.url else None)
    back = f"<!doctype html><script>location.replace('{SITE}/pages/queue')</script>"  # a redirect would not be answered
    page.route(f"{LOGIN}**", lambda route: route.fulfill(content_type="text/html", body=back))
    answer_all(page, 401, "Token Expired")
    page.goto(f"{SITE}/pages/queue")
    banner = page.locator("header .banner.failed")
    expect(banner).to_contain_text("You are not logged in to Airflow any more.")
    assert len(asked) == 1
    page.route(f"{LOGIN}**", blank)
    banner.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{LOGIN}**")


# ---- tables


def show_table(page: Page, names: tuple[str, ...]) -> None:
    """A table of these names, with a column of each kind."""
    page.route(API, lambda route: None)
    page.goto(f"{SITE}/pages/queue")
    page.evaluate(
        """async (names) => {
        const {h, table} = await import("/pages/static/elements.js");
        const main = document.getElementById("main");
        main.removeAttribute("aria-busy");
        main.replaceChildren(table("Names", [
            {title: "dataset", wide: true, cell: (name) => h("a", {href: "dataset"}, name)},
            {title: "name", cell: (name) => name},
            {title: "reason", cell: (name) => `it comes after ${name}, whose score is higher than its own`},
            {title: "state", cell: () => "cached"},
            {title: "size", number: true, cell: () => "1.2 GB"},
            {title: "obstacles", cell: () => "the operation is not proven idempotent"},
        ], names, (name) => name));
        }""",
        list(names),
    )


def test_no_column_of_a_table_is_a_ribbon(page):
    """Texts have room, and what is short stays in one line; a caption is for those who do not see the table."""
    show_table(page, LONG)
    expect(page.get_by_role("table", name="Names")).to_be_visible()
    box = page.locator("caption").bounding_box()
    assert box["width"] <= 1 and box["height"] <= 1, "a heading stands above it anyway"
    page.set_viewport_size({"width": 1024, "height": 900})
    widths = page.locator("thead th").evaluate_all("(cells) => cells.map((cell) => cell.getBoundingClientRect().width)")
    dataset, name, reason, state, size, obstacles = widths
    assert min(dataset, name, reason) >= 20 * 14 and obstacles >= 12 * 14
    assert max(state, size) <= 100
    link = page.get_by_role("link", name="etl/long_part")
    assert link.evaluate("(link) => link.querySelectorAll('wbr').length") == 20, "a path wraps after its slashes"
    assert link.evaluate("(link) => link.textContent") == LONG[1]
