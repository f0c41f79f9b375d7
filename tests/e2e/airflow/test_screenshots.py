"""Each page in both themes, with data in every state: a picture of it, and what axe finds."""

from __future__ import annotations

import pytest

from springline.persistence.model.dataset import Dataset
from tests.e2e.airflow.conftest import FIRST, SECOND, lose
from tests.support.airflow.airflow_pages import PAGES, opened
from tests.support.airflow.browser import SIZE, THEMES, faults

pytestmark = pytest.mark.nightly("every page in both themes")

QUERIES = {"dataset": f"?path=etl/{FIRST}/accepted"}
SHOWN = {"lineage": ".template", "dataset": "dl.facts"}  # other pages show a table
JOBS = {"ticks": "path.line", "words": "td code", "pairs": "svg.load-bar"}  # what comes last of their pages


@pytest.fixture(scope="module", autouse=True)
def missing(live, lost_dataset, streams) -> Dataset:
    """A dataset that is lost and not recovered; beside it there are streams."""
    return lose(live, f"etl/{SECOND}/causes")


@pytest.mark.parametrize("context", THEMES, indirect=True)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_for_everybody(page, live, screenshots, request, name):
    """In Airflow's frame and in its theme, nothing serious stands in the way of a person who does not see it."""
    theme = request.node.callspec.params["context"]
    frame = opened(page, live.address, name, QUERIES.get(name, ""))
    frame.locator(SHOWN.get(name, "tbody tr[data-key]")).first.wait_for()
    assert frame.evaluate("() => document.documentElement.dataset.theme") == theme
    dark = frame.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in dark.strip("rgb()").split(",")) < 128 * 3) == (theme == "dark")
    page.screenshot(path=screenshots / f"{name}-{theme}.png")
    assert faults(frame) == []


@pytest.mark.parametrize("context", THEMES, indirect=True)
@pytest.mark.parametrize("job", JOBS)
def test_the_page_of_a_stream_is_for_everybody(page, live, streams, screenshots, request, job):
    """Of each kind of job."""
    theme = request.node.callspec.params["context"]
    page.set_viewport_size({**SIZE, "height": 1300})
    frame = opened(page, live.address, "streams", f"?job={job}")
    frame.locator(JOBS[job]).first.wait_for()
    page.screenshot(path=screenshots / f"stream-{job}-{theme}.png")
    assert faults(frame) == []


@pytest.mark.parametrize("context", THEMES, indirect=True)
def test_what_opens_on_a_page_is_for_everybody_too(page, live, screenshots, request):
    """The details of a row, and a chain that is shown."""
    theme = request.node.callspec.params["context"]
    frame = opened(page, live.address, "queue")
    frame.locator("summary").nth(1).click()
    page.screenshot(path=screenshots / f"queue-why-{theme}.png")
    assert faults(frame) == []
    frame = opened(page, live.address, "lineage")
    frame.locator(".alarm .chip").first.click()
    frame.locator(".template.chain").first.wait_for()
    page.screenshot(path=screenshots / f"lineage-chain-{theme}.png")
    assert faults(frame) == []
