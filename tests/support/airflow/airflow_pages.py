"""What a person does on Airflow's pages, and what is seen of it on ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date

from playwright.sync_api import Frame, Locator, Page, expect

from springline.airflow.api import PREFIX

DAG = "etl_lineage"
PAGES = {"lineage": "Lineage", "queue": "Queue", "risk": "At risk", "dataset": "Dataset", "streams": "Streams"}


@dataclass(frozen=True)
class Watched:
    """A lineage page that stood open while a DAG run made datasets."""

    counts: tuple[int, ...]  # of datasets in the picture, whenever it was another one
    reloaded: bool


def framed(page: Page, title: str) -> Frame:
    """Our page in the frame that Airflow's page has for it."""
    frame = page.locator(f"iframe[title='{title}']").element_handle().content_frame()
    assert frame is not None
    frame.locator("main").wait_for()
    return frame


def opened(page: Page, address: str, name: str, query: str = "") -> Frame:
    """One of our pages, in the frame that Airflow's navigation leads to."""
    page.goto(f"{address}/plugin/springline-{name}{PREFIX}/pages/{name}{query}")
    return framed(page, PAGES[name])


def _form(page: Page, address: str, kind: str) -> Locator:
    """Airflow's form behind a DAG's button, for runs of this kind."""
    page.goto(f"{address}/dags/{DAG}")
    page.get_by_test_id("trigger-dag-button").click()
    form = page.get_by_role("dialog").filter(has_text="Single Run")
    form.get_by_text(kind, exact=True).click()
    return form


def trigger(page: Page, address: str, day: date) -> None:
    """Start a DAG run of one day, as Airflow's form has it: for today, with the day in its field."""
    form = _form(page, address, "Single Run")
    form.locator("#element_ds").fill(day.isoformat())
    form.get_by_test_id("trigger-dag-submit").click()
    expect(form).to_be_hidden()


def backfill(page: Page, address: str, first: date, last: date) -> None:
    """Start a backfill of these days."""
    form = _form(page, address, "Backfill")
    for name, day in (("From", first), ("To", last)):
        form.get_by_text("Select date and time").first.click()
        field = page.get_by_role("textbox", name=name, exact=True)
        field.fill(f"{day:%Y/%m/%d}")
        field.press("Enter")
        page.keyboard.press("Escape")
    runs = (last - first).days + 1
    expect(form).to_contain_text(f"{runs} run{'s' if runs > 1 else ''} will be triggered")
    form.get_by_role("button", name="Run Backfill").click()
    expect(form).to_be_hidden()


def datasets_in(frame: Frame) -> int:
    """How many datasets are in the picture of the lineage, as its page says."""
    said = frame.locator(".toolbar .count").inner_text()
    number = re.search(r"([\d,]+) datasets?\b", said)
    return int(number[1].replace(",", "")) if number else 0


def watch(frame: Frame, states: Callable[[], Collection[str]], most: int) -> Watched:
    """Look at the picture until every DAG run has ended and `most` datasets are in it, or a while after."""
    frame.evaluate("() => { window.first = true; }")
    counts: list[int] = []
    rest = 10  # looks after the last run has ended
    for _ in range(600):
        drawn = datasets_in(frame)
        if drawn not in counts[-1:]:
            counts.append(drawn)
        ended = states()
        if ended and all(state in ("success", "failed") for state in ended):
            rest -= 1
            if rest < 0 or drawn == most:
                break
        frame.wait_for_timeout(1000)
    assert set(states()) == {"success"}
    return Watched(tuple(counts), not frame.evaluate("() => window.first === true"))
