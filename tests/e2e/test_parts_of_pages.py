"""Parts of a page that ask for themselves: the trouble of one is told, whatever the others are answered."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from springline_airflow.pages import serving
from tests.support.browser import themed

SITE = "http://pages.test"
SAFE = {"datasets": 0, "irrecoverable_bytes": 0, "recomputable_bytes": 0, "recompute_seconds": 0, "exposed": []}
AWAY = {"detail": "the catalog does not answer"}


@pytest.fixture
def alone(browser):
    """A tab whose pages are ours, and the answers that it gets: a status and what is told, by address."""
    context = themed(browser, "light")
    page = context.new_page()
    answers: dict[str, tuple[int, Any]] = {}

    def answer(route: Route) -> None:
        place = route.request.url.removeprefix(f"{SITE}/").partition("?")[0]
        if place.startswith("api/v1/"):
            status, told = answers[place.removeprefix("api/v1/")]
            route.fulfill(status=status, content_type="application/json", body=json.dumps(told))
        else:
            found = serving.static(place.rpartition("/")[2]) if "/static/" in place else serving.page(place[6:])
            route.fulfill(content_type=found.headers["content-type"], body=found.body)

    page.route(f"{SITE}/**", answer)
    yield page, answers
    context.close()


@pytest.mark.parametrize("away", ["at-risk", "at-risk/history"])
def test_one_half_of_the_page_at_risk_says_what_the_other_does_not_miss(alone, away):
    """Each half asks again and again; the answers to one take nothing away of what the other says."""
    page, answers = alone
    answers |= {"at-risk": (200, SAFE), "at-risk/history": (200, []), away: (503, AWAY)}
    page.goto(f"{SITE}/pages/risk")
    past = page.get_by_role("region", name="Over time")
    for _ in range(2):
        with page.expect_response(re.compile("at-risk$")), page.expect_response(re.compile("at-risk/history")):
            pass
        if away == "at-risk":
            expect(page.locator("#status.wrong")).to_have_text(AWAY["detail"])
            expect(past).to_contain_text("Nothing was recorded in this time.")
            expect(past.locator(".trouble")).to_be_empty()
        else:
            expect(past.locator(".trouble.wrong")).to_have_text(AWAY["detail"])
            expect(page.get_by_text("nothing that you may read would be lost")).to_be_visible()
            expect(page.locator("#status")).to_be_empty()
    answers[away] = (200, SAFE if away == "at-risk" else [])
    expect(page.locator(".wrong")).to_have_count(0)
    expect(past.get_by_label("Show")).to_be_visible()
