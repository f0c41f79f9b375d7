"""A Chromium, and a tab that shows pages with answers that a test gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.support.airflow.browser import Clicks, chromium, themed
from tests.support.airflow.page_files import SITE, send_file

expect.set_options(timeout=60_000)  # milliseconds; a busy machine draws late
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """The folder of the screenshots of the pages."""
    folder = ROOT / "var" / "e2e"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with chromium() as chromium_browser:
        yield chromium_browser


@pytest.fixture
def alone(browser):
    """A tab whose pages are ours, and the answers that it gets: status and body, by address."""
    context = themed(browser, "light")
    page = context.new_page()
    answers: dict[str, tuple[int, Any]] = {}

    def answer(route: Route) -> None:
        place = route.request.url.removeprefix(f"{SITE}/").partition("?")[0]
        if place.startswith("api/v1/"):
            status, body = answers[place.removeprefix("api/v1/")]
            route.fulfill(status=status, content_type="application/json", body=json.dumps(body))
        else:
            send_file(route)

    page.route(f"{SITE}/**", answer)
    yield page, answers
    context.close()


@pytest.fixture
def clicks(alone) -> Clicks:
    """How often a person clicks in that tab."""
    page, _ = alone
    return Clicks(page)
