"""A Chromium that looks at pages as a person does, and what it finds wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Frame, Page, sync_playwright

from springline.services.packages.chromium import ensure_chromium

THEMES = ("light", "dark")
SIZE = {"width": 1440, "height": 900}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium, without a window."""
    root = os.geteuid() == 0
    program = ensure_chromium(os.environ, root=root)
    sandbox = ["--no-sandbox"] if root else []  # Chromium refuses to run as root with it
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=sandbox)
        try:
            yield browser
        finally:
            browser.close()


def themed(browser: Browser, theme: str, **more: Any) -> BrowserContext:
    """A new session of the browser, in which Airflow has this theme."""
    context = browser.new_context(viewport=SIZE, locale="en-US", color_scheme="light", **more)
    context.add_init_script(f"try {{ localStorage.setItem('theme', '{theme}'); }} catch {{}}")
    context.set_default_timeout(90_000)  # milliseconds; a busy machine draws late
    return context


@dataclass
class Complaints:
    """What the browser complained of on our own pages: errors of scripts, of the policy of contents, of answers."""

    messages: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        """Note what this page and its frames complain of from now on."""
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.messages.append(f"{page.url}: {error}"))

    def _note_message(self, message: Any) -> None:
        url = message.location.get("url", "")
        if message.type == "error" and "/springline/" in url:
            self.messages.append(f"{message.location['url']}: {message.text}")


def faults(place: Page | Frame) -> list[str]:
    """What axe finds serious or critical on a page, each with the elements that it means."""
    if not place.evaluate("() => 'axe' in window"):
        place.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    report = place.evaluate("() => axe.run(document, {resultTypes: ['violations'], preload: false})")
    return [
        f"{fault['id']} ({fault['impact']}): {fault['help']}: {[node['html'][:200] for node in fault['nodes'][:5]]}"
        for fault in report["violations"]
        if fault["impact"] in ("serious", "critical")
    ]


def fits(page: Page) -> bool:
    """Whether a page can be read without scrolling sideways."""
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


def assert_for_everybody(page: Page, widths: Sequence[int] = (1024, 2560), regions: str = "") -> None:
    """At each width neither the page nor these regions scroll sideways; axe finds nothing serious in either theme.

    What axe finds does not depend on the width, so it looks at the first.
    """
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page), f"{width} px"
        if regions:
            wide = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)"
            assert page.locator(regions).evaluate_all(wide) == [], f"{width} px"
        for theme in THEMES if width == widths[0] else ():
            page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
            assert faults(page) == [], f"{width} px, {theme}"


class Clicks:
    """Counts what a person clicks on a page, in all of its frames, from now on."""

    def __init__(self, page: Page) -> None:
        self.number = 0
        page.expose_binding("noteClick", self._note)
        page.add_init_script("addEventListener('click', (event) => event.isTrusted && window.noteClick(), true)")

    def _note(self, source: Any) -> None:
        self.number += 1
