"""A person at work on Airflow's pages: watches DAG runs, asks why, acts, and gets back what was lost."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Frame, Page, expect

from springline.persistence.model.dataset import CacheState, DatasetStatus
from tests.e2e.conftest import FIRST, OUTPUTS
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


# ---- finding the pages


@pytest.mark.parametrize(("name", "title"), PAGES.items())
def test_the_pages_are_in_the_navigation(page, live, name, title):
    """Below Browse; each opens in Airflow's own frame."""
    page.goto(live.address)
    page.get_by_test_id("nav-sidebar").get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name=title, exact=True).click()
    frame = framed(page, title)
    expect(frame.get_by_role("heading", level=1)).to_have_text(title)
    expect(frame.locator("#nav [aria-current=page]")).to_have_text(title)


# ---- a DAG run


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


def test_a_card_shows_what_would_bring_its_newest_dataset_back(page, live, day):
    """In the picture and in words, whether or not its operations were seen to repeat."""
    frame = opened(page, live.address, "lineage")
    card = frame.locator('.template[data-key="etl/{ds}/hours"]')
    card.locator(".label").click()
    expect(frame.locator("#recovery")).to_contain_text("If the cache were lost,")
    expect(frame.locator(".panel .steps li").last).to_contain_text(f"etl/{FIRST}/hours")
    expect(frame.locator(".template.chain").nth(3)).to_be_visible()
    expect(frame.locator(".panel").get_by_role("link", name=f"etl/{FIRST}/hours@1")).to_be_visible()


# ---- the queue


def test_the_queue_says_why_one_comes_after_another(page, live, day):
    """Each row opens and compares its score with that of the row before."""
    frame = opened(page, live.address, "queue")
    rows = frame.locator("tbody > tr[data-key]")
    rows.nth(1).wait_for()
    first, second = (rows.nth(i).get_attribute("data-key") for i in (0, 1))
    rows.nth(1).locator("summary").click()
    expect(rows.nth(1).locator(".opened p").first).to_contain_text(f"It comes after {first}, whose score")
    text = about(page, live, second.partition("@")[0]).locator(".words").inner_text()
    assert re.search(r"\d+ (is|are) before it: ", text)


def test_what_a_person_opened_on_a_page_stays_while_it_is_told_anew(page, live, day):
    """Details, focus, and where one has scrolled to; the times go on meanwhile."""
    page.set_viewport_size({"width": 1100, "height": 420})
    frame = opened(page, live.address, "queue")
    row = frame.locator("tbody > tr[data-key]").nth(3)
    row.locator("summary").click()
    waited = row.locator("> td").nth(6)
    before = waited.inner_text()
    state = "() => [scrollY > 0, document.activeElement.tagName, document.querySelectorAll('details[open]').length]"
    page_state = frame.evaluate(state)
    expect(waited).not_to_have_text(before)
    assert frame.evaluate(state) == page_state
    assert page_state == [True, "SUMMARY", 1]


def test_another_policy_is_looked_at_before_it_is_in_use(page, live, day):
    """Its positions stand beside the real ones, which stay."""
    frame = opened(page, live.address, "queue")
    frame.locator("tbody > tr[data-key]").first.wait_for()
    names = frame.locator("tbody > tr[data-key]").evaluate_all("(rows) => rows.map((row) => row.dataset.key)")
    frame.get_by_label("What if: compare with the policy").select_option("fifo")
    expect(frame.locator("thead th", has_text="by fifo")).to_be_visible()
    expect(frame.locator(".move").first).to_have_text(re.compile(r"[↑↓]\d+|="))
    assert names == frame.locator("tbody > tr[data-key]").evaluate_all("(rows) => rows.map((row) => row.dataset.key)")


def test_a_dataset_says_why_it_is_not_persisted_and_what_would_be_lost(page, live, day):
    """On the page of the queue, and on that of the risks, whose curve ends with the numbers above it."""
    path = f"etl/{FIRST}/hours"
    frame = opened(page, live.address, "queue", f"?explain={path}")
    expect(frame.locator(".answer")).to_contain_text(re.compile(r"Queued: .*It is the \d+(st|nd|rd|th) in the queue"))
    frame = opened(page, live.address, "risk")
    frame.locator(".tiles dd.large").nth(2).wait_for()
    gone, again, _ = frame.locator(".tiles dd.large").all_text_contents()
    expect(frame.locator(".now")).to_contain_text(f"Now: {gone} irrecoverable, {again} to be recomputed, in about ")


# ---- acting


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


# ---- losing, and getting back


def test_a_copy_that_is_gone_from_the_cache_is_seen(page, live, lost):
    """It is persisted: the page says where it is, and offers to bring it back."""
    frame = about(page, live, lost.ref.path)
    expect(frame.locator("h2.name .state")).to_have_text("persisted")
    expect(frame.locator(".words")).to_contain_text("lost from the cache, a verified copy is in the under-store")
    expect(frame.get_by_role("button", name="Recover")).to_be_visible()


def test_a_link_to_airflow_leads_the_whole_page_there(page, live, day):
    """Not just the frame."""
    frame = about(page, live, f"etl/{FIRST}/clean")
    frame.get_by_role("link", name=DAG, exact=True).click()
    page.wait_for_url(f"{live.address}/dags/{DAG}")
    expect(page.locator("iframe")).to_have_count(0)


# ---- a backfill


def test_the_lineage_of_a_dag_fills_during_a_backfill(backfilled):
    """In the DAG's own tab."""
    assert not backfilled.reloaded
    assert (backfilled.counts[0], backfilled.counts[-1]) == (OUTPUTS, 2 * OUTPUTS)
    assert len(backfilled.counts) > 3


def test_what_is_lost_and_was_never_persisted_stands_out(page, live, lost_dataset):
    """In the picture, in the words of the chain, and on its own page."""
    picture = opened(page, live.address, "lineage")
    expect(picture.locator(".alarm")).to_contain_text("1 lost dataset in 1 partition")
    picture.locator(".alarm .chip").click()
    expect(picture.locator(".panel .path")).to_have_text(f"{lost_dataset.ref}")
    picture.get_by_label("State").select_option("lost")
    expect(picture.locator(".toolbar .count")).to_contain_text("1 template,")
    frame = about(page, live, lost_dataset.ref.path)
    expect(frame.locator("h2.name .state")).to_have_text("lost")
    expect(frame.get_by_role("button", name="Recover")).to_be_visible()


@pytest.mark.parametrize(("which", "state"), [("lost", "persisted"), ("lost_dataset", "cached")])
def test_what_was_lost_comes_back_when_it_is_asked_for(page, live, request, which, state):
    """By a DAG run that the page leads to: fetched, or made again; the page shows when it is there."""
    dataset = request.getfixturevalue(which)
    live.api.await_dags(("recover",))
    frame = about(page, live, dataset.ref.path)
    assert "will be restored" in wish(frame, "Recover", yes=True)
    dialog = frame.get_by_role("dialog")
    target = dialog.get_by_role("link", name="open the DAG run").get_attribute("href")
    dialog.get_by_role("button", name="Close").click()
    run_id = urlsplit(target).path.rpartition("/")[2]
    live.finish("recover", lambda: [live.api.run_state("recover", run_id)])
    back = frame.get_by_role("region", name="History").locator("li").first
    expect(back).to_contain_text("Restored to the cache", timeout=20_000)
    expect(frame.locator("h2.name .state")).to_have_text(state)
    assert live.platform.catalog.resolve(dataset.ref.path).cache is CacheState.PRESENT
    assert re.search(r"dags/recover/runs/.", target)
