"""A person looks after streams on Airflow's pages: sees how they are, asks them, changes and stops them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Frame, Page, expect

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, read_config
from springline.spark_jobs.streaming.tracking.replay.manual_replay import replay_times
from tests.support.airflow.airflow_pages import opened
from tests.support.airflow.browser import Complaints
from tests.support.streams.declared_streams import KINDS


@pytest.fixture(autouse=True)
def existing_jobs(streams):
    """There are jobs to look at."""
    return streams


def of(page: Page, live, job: str) -> Frame:
    """The page of one job."""
    frame = opened(page, live.address, "streams", f"?job={job}")
    frame.get_by_role("region", name="Dead letters", exact=True).wait_for()
    return frame


def forgive(complaints: Complaints, *statuses: int) -> None:
    """The browser notes answers with these statuses as errors of its own."""
    assert all(any(f"status of {status}" in each for status in statuses) for each in complaints.messages)
    complaints.messages.clear()


def test_a_job_that_is_not_there_is_named(page, live, complaints):
    """With what is wrong."""
    frame = opened(page, live.address, "streams", "?job=other")
    expect(frame.locator("#status.wrong")).to_contain_text("no job 'other' is declared")
    forgive(complaints, 404)


def test_a_page_follows_while_its_job_runs(page, live):
    """Without being loaded again, or losing what one has opened."""
    frame = of(page, live, "ticks")
    table = frame.get_by_role("region", name="Stages", exact=True).locator("details")
    table.locator("summary").click()
    number = frame.get_by_role("region", name="Stages, in processing order").locator("tr[data-key=map] td").nth(2)
    before = number.inner_text()
    expect(number).not_to_have_text(before)
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_have_attribute("open", "")


def test_who_throttles_whom_is_seen_and_another_mode_is_chosen(page, live, streams):
    """From where the job finds it."""
    frame = of(page, live, "ticks")
    part = frame.get_by_role("region", name="Stages", exact=True)
    expect(part.locator("svg .edge.held")).to_have_count(1)
    expect(part.locator("svg .node")).to_have_count(2)
    expect(part.locator(".throttles")).to_contain_text("reduce throttles map to 2.1 MB/s since")
    mode = part.get_by_label("Back-pressure mode")
    expect(mode).to_have_value("predictive")
    with page.expect_response(lambda answer: answer.request.method == "PUT") as changed:
        mode.select_option("stepwise")
    assert changed.value.ok and read_config(streams.folder("ticks"), DEFAULT_CONFIG).mode == "stepwise"


def test_the_newest_results_are_lines_over_time(page, live):
    """Of the column that is chosen, one for each key; the table has the newest row first."""
    frame = of(page, live, "ticks")
    part = frame.get_by_role("region", name="Newest results", exact=True)
    expect(part.locator("figure .plot path.line[d*=L]")).to_have_count(len(KINDS))
    before = part.locator("figure .plot > svg").get_attribute("aria-label")
    assert before.startswith("n up to")
    part.locator("label", has_text="Value").locator("select").select_option("load")
    expect(part.locator("figure .plot > svg")).to_have_attribute("aria-label", re.compile("^load up to .*tcp 0.5"))
    part.get_by_label("Group by").select_option("None")
    expect(part.locator("figure .plot > svg path.line")).to_have_count(1)
    part.locator("summary").click()
    expect(part.locator("tbody tr").first).to_contain_text("icmp")


def test_a_question_is_answered_and_a_wrong_one_says_where(page, live, complaints):
    """The cursor stands there, and what was asked before is gone."""
    frame = of(page, live, "ticks")
    part = frame.get_by_role("region", name="Ad hoc query", exact=True)
    sql = part.get_by_label("SQL")
    expect(sql).to_have_value("SELECT kind, count(*) AS n, avg(load) AS load FROM ticks GROUP BY kind")
    part.get_by_role("button", name="Run").click()
    expect(part.locator("tbody tr")).to_have_count(len(KINDS))
    sql.fill("SELECT kind,\n nothing FROM ticks GROUP BY kind")
    page.keyboard.press("Control+Enter")
    expect(part.locator(".trouble.wrong")).to_contain_text("line 2, column 2")
    expect(part.locator("tbody")).to_have_count(0)
    assert sql.evaluate("(each) => [each.selectionStart, document.activeElement === each]") == [14, True]
    forgive(complaints, 422)


def test_a_record_that_failed_is_sent_again_when_that_is_confirmed(page, live, streams):
    """Once: then the page shows when that was."""
    frame = of(page, live, "words")
    part = frame.get_by_role("region", name="Dead letters", exact=True)
    send = part.get_by_role("button", name="Retry: partition 1, offset 3")
    send.click()
    dialog = frame.get_by_role("dialog")
    expect(dialog).to_contain_text("is appended to that partition of lines as a new record")
    dialog.get_by_role("button", name="Cancel").click()
    expect(send).to_be_focused()
    assert replay_times(streams.folder("words")) == {}
    send.click()
    yes = frame.get_by_role("dialog").get_by_role("button", name="Retry")
    expect(yes).to_be_enabled()
    with page.expect_response(lambda answer: answer.request.method == "POST") as sent:
        yes.click()
    assert sent.value.ok and len(replay_times(streams.folder("words"))) == 1
    expect(part.get_by_role("button", name="Retry: partition 1, offset 3")).to_have_count(0)
    expect(part.locator("tbody tr").last).to_contain_text("retried ")


def test_a_job_that_never_ran_says_what_it_lacks(page, live, complaints):
    """Its way through is shown all the same."""
    frame = of(page, live, "never")
    expect(frame.locator(".verdict")).to_contain_text("never started")
    tracking = frame.get_by_role("region", name="Tracking", exact=True).locator(".trouble")
    expect(tracking).to_have_text("never: it has not tracked any record yet; start it first")
    expect(tracking).not_to_have_class(re.compile("wrong"))
    expect(frame.locator("svg .node").filter(has_text="count")).to_contain_text("not measured yet")
    expect(frame.get_by_role("region", name="Dead letters", exact=True)).to_contain_text("there are no dead letters")
    forgive(complaints, 409)


def test_a_job_is_stopped_when_that_is_confirmed(page, live, streams):
    """Not before."""
    stop = streams.folder("words").stop_file
    frame = of(page, live, "words")
    frame.get_by_role("button", name="Stop").click()
    dialog = frame.get_by_role("dialog")
    expect(dialog).to_contain_text("stops after its planned rounds")
    dialog.get_by_role("button", name="Cancel").click()
    expect(frame.get_by_role("button", name="Stop")).to_be_focused()
    assert not stop.exists()
    frame.get_by_role("button", name="Stop").click()
    frame.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(frame.get_by_role("dialog")).to_have_count(0)
    assert stop.exists()
    stop.unlink()
