"""A person at work on Airflow's pages: watches DAG runs, asks why, acts, and gets back what was lost."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Frame, Page, expect

from springline.persistence.model.dataset import CacheState, DatasetStatus
from tests.e2e.airflow.conftest import FIRST, OUTPUTS
from tests.support.airflow.airflow_pages import DAG, PAGES, framed, opened


def about(page: Page, live, path: str) -> Frame:
    """The page of one dataset."""
    frame = opened(page, live.address, "dataset", f"?path={path}")
    frame.get_by_role("heading", name="Facts").wait_for()
    return frame


def wish(frame: Frame, title: str, yes: bool) -> str:
    """Press a button, read what it would do, then go on or not."""
    frame.get_by_role("group", name="Actions").get_by_role("button", name=title, exact=True).click()
    dialog = frame.get_by_role("dialog")
    paragraph = dialog.locator("p").first
    expect(paragraph).not_to_have_text("loading …")
    text = paragraph.inner_text()
    dialog.get_by_role("button", name=title if yes else "Cancel", exact=True).click()
    return text


@pytest.mark.parametrize(("name", "title"), PAGES.items())
def test_the_pages_are_in_the_navigation(page, live, name, title):
    """Below Browse; each opens in Airflow's own frame."""
    page.goto(live.address)
    page.get_by_test_id("nav-sidebar").get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name=title, exact=True).click()
    frame = framed(page, title)
    expect(frame.get_by_role("heading", level=1)).to_have_text(title)
    expect(frame.locator("#nav [aria-current=page]")).to_have_text(title)


def test_the_lineage_fills_while_the_workflow_runs(day):
    """The page is never loaded again."""
    assert not day.reloaded
    assert day.counts[0] == 0 and day.counts[-1] == OUTPUTS
    assert len(day.counts) > 3 and list(day.counts) == sorted(day.counts), "bit by bit"


def test_the_tab_of_a_dag_run_and_of_a_task_show_what_they_made(page, live, day):
    """With what it was made of."""
    run_id = live.platform.catalog.resolve(f"etl/{FIRST}/clean").origin.run_id
    at = f"{live.address}/dags/{DAG}/runs/{run_id}"
    page.goto(f"{at}/plugin/springline-lineage-dag-run")
    expect(framed(page, "Lineage").locator(".template")).to_have_count(OUTPUTS)
    page.goto(f"{at}/tasks/clean/plugin/springline-lineage-task")
    cards = framed(page, "Lineage").locator(".template")
    expect(cards).to_have_count(1)
    expect(cards).to_contain_text("etl/{ds}/clean")


def test_a_dataset_says_why_it_is_not_persisted_and_what_would_be_lost(page, live, day):
    """On the page of the queue, and on that of the risks, whose curve ends with the numbers above it."""
    path = f"etl/{FIRST}/hours"
    frame = opened(page, live.address, "queue", f"?explain={path}")
    expect(frame.locator(".answer")).to_contain_text(re.compile(r"Queued: .*It is the \d+(st|nd|rd|th) in the queue"))
    frame = opened(page, live.address, "risk")
    frame.locator(".tiles dd.large").nth(2).wait_for()
    irrecoverable_bytes, recomputable_bytes, _ = frame.locator(".tiles dd.large").all_text_contents()
    expect(frame.locator(".now")).to_contain_text(
        f"Now: {irrecoverable_bytes} irrecoverable, {recomputable_bytes} to be recomputed, in about "
    )


def test_what_is_asked_for_is_tried_dry_first(page, live, day):
    """Then done, noted with the name, and seen at once."""
    path = f"etl/{FIRST}/routes"
    frame = about(page, live, path)
    assert "is neither evicted nor retired" in wish(frame, "Pin", yes=False)
    assert not live.platform.catalog.resolve(path).pinned
    assert "is neither evicted nor retired" in wish(frame, "Pin", yes=True)
    expect(frame.get_by_role("button", name="Unpin")).to_be_focused()
    assert live.platform.catalog.resolve(path).pinned
    assert "moves to the head of the queue" in wish(frame, "Persist now", yes=True)
    happened = frame.get_by_role("region", name="History")
    expect(happened).to_contain_text(
        re.compile(r"Moved to the head of the queue.*admin.*Pinned.*admin.*Requested manually", re.DOTALL)
    )
    frame = opened(page, live.address, "queue")
    expect(frame.locator("tbody > tr[data-key]").first).to_contain_text(f"{path}@1")
    expect(frame.locator("tbody > tr[data-key]").first).to_contain_text("moved to the head of the queue")


def test_a_page_follows_while_a_dataset_is_persisted(page, live, day, request):
    """Without being loaded again."""
    frame = about(page, live, f"etl/{FIRST}/hours")
    badge = frame.locator("h2.name .state")
    expect(badge).to_have_text("cached")
    request.getfixturevalue("persisted")
    expect(badge).to_have_text("persisted")
    assert {each.status() for each in live.platform.catalog.find(prefix=f"etl/{FIRST}/")} == {DatasetStatus.PERSISTED}


def test_a_link_to_airflow_leads_the_whole_page_there(page, live, day):
    """Not just the frame."""
    frame = about(page, live, f"etl/{FIRST}/clean")
    frame.get_by_role("link", name=DAG, exact=True).click()
    page.wait_for_url(f"{live.address}/dags/{DAG}")
    expect(page.locator("iframe")).to_have_count(0)


def test_the_lineage_of_a_dag_fills_during_a_backfill(backfilled):
    """In the DAG's own tab."""
    assert not backfilled.reloaded
    assert (backfilled.counts[0], backfilled.counts[-1]) == (OUTPUTS, 2 * OUTPUTS)
    assert len(backfilled.counts) > 3


def test_what_is_lost_and_was_never_persisted_stands_out(page, live, lost_dataset):
    """In the picture, and in the words of the chain."""
    picture = opened(page, live.address, "lineage")
    expect(picture.locator(".alarm")).to_contain_text("1 lost dataset in 1 partition")
    picture.locator(".alarm .chip").click()
    expect(picture.locator(".panel .path")).to_have_text(f"{lost_dataset.ref}")
    picture.get_by_label("State").select_option("lost")
    expect(picture.locator(".toolbar .count")).to_contain_text("1 template,")


@pytest.mark.parametrize(
    ("which", "location", "state"),
    [
        ("lost", "lost from the cache, a verified copy is in the under-store", "persisted"),
        ("lost_dataset", "lost from the cache, not in the under-store", "cached"),
    ],
)
def test_what_was_lost_comes_back_when_it_is_asked_for(page, live, request, which, location, state):
    """By a DAG run that the page leads to: fetched, or recomputed; the page shows where it is, before and after."""
    dataset = request.getfixturevalue(which)
    live.api.await_dags(("recover",))
    frame = about(page, live, dataset.ref.path)
    expect(frame.locator(".words")).to_contain_text(location)
    assert "will be restored" in wish(frame, "Recover", yes=True)
    dialog = frame.get_by_role("dialog")
    target = dialog.get_by_role("link", name="open the DAG run").get_attribute("href")
    dialog.get_by_role("button", name="Close").click()
    run_id = urlsplit(target).path.rpartition("/")[2]
    live.finish("recover", lambda: [live.api.run_state("recover", run_id)])
    back = frame.get_by_role("region", name="History").locator("li").first
    expect(back).to_contain_text("Restored to the cache")
    expect(frame.locator("h2.name .state")).to_have_text(state)
    assert live.platform.catalog.resolve(dataset.ref.path).cache is CacheState.PRESENT
    assert re.search(r"dags/recover/runs/.", target)
