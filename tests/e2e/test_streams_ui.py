"""A person looks after streams on Airflow's pages: sees how they are, asks them, changes and stops them."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Frame, Page, expect

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, read_config
from springline.spark_jobs.streaming.tracking.replay.manual_replay import replay_times
from tests.support.airflow.airflow_pages import opened
from tests.support.airflow.browser import Complaints
from tests.support.streams.kept_streams import HOSTILE, JOBS, KINDS


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


# ---- all jobs


def test_each_job_is_told_with_its_health_and_its_lag(page, live):
    """And leads to its own page, from which one comes back."""
    frame = opened(page, live.address, "streams")
    expect(frame.locator(".healths")).to_contain_text("7 jobs")
    assert frame.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.key)") == list(JOBS)
    rows = {job: frame.locator(f"tbody tr[data-key={job}]") for job in JOBS}
    expect(rows["ticks"]).to_contain_text(re.compile(r"lagging4,810 messages behind, 23 s to drain.*rows/s", re.DOTALL))
    healths = {"crashed": "failed", "stuck": "stalled", "fresh": "starting", "words": "ok", "pairs": "stopped"}
    for job, health in healths.items():
        expect(rows[job].locator(".state")).to_have_text(health)
    expect(rows["never"]).to_contain_text("never started")
    rows["ticks"].get_by_role("link", name="ticks").click()
    expect(frame.locator("h2.name")).to_contain_text("ticks")
    frame.get_by_role("link", name="All streams").click()
    expect(frame.locator(".healths")).to_contain_text("7 jobs")


def test_a_list_without_jobs_says_so(page, live):
    """Whether none is declared, or they are others'."""
    page.route("**/api/v1/streams?*", lambda route: route.fulfill(json={"streams": []}))
    frame = opened(page, live.address, "streams")
    expect(frame.locator(".empty")).to_contain_text("no stream job that you may read")


def test_a_job_that_is_not_there_is_named(page, live, complaints):
    """With what is wrong."""
    frame = opened(page, live.address, "streams", "?job=other")
    expect(frame.locator("#status.wrong")).to_contain_text("no job 'other' is declared")
    forgive(complaints, 404)


# ---- one job


def test_a_page_follows_while_its_job_runs(page, live):
    """Without being loaded again, or losing what one has opened."""
    frame = of(page, live, "ticks")
    table = frame.get_by_role("region", name="Stages", exact=True).locator("details")
    table.locator("summary").click()
    number = frame.get_by_role("region", name="Stages, in processing order").locator("tr[data-key=map] td").nth(2)
    before = number.inner_text()
    expect(number).not_to_have_text(before, timeout=15_000)
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


def test_a_few_lines_are_drawn_where_there_are_many(page, live):
    """Those with the greatest values, each in the order of time; the others are counted."""
    frame = opened(page, live.address, "streams")
    rows = [
        {"query": "q", "window_start": 0, "window_end": end, "k": f"k{key}", "n": key * end}
        for end in (2, 1) for key in range(9)
    ]  # fmt: skip
    chart = frame.evaluate(
        "async (rows) => (await import('./static/series.js')).linesOf(rows, 'n', ['k'])", json.loads(json.dumps(rows))
    )
    assert [line["name"] for line in chart["lines"]] == ["k8", "k7", "k6", "k5", "k4", "k3"]
    assert chart["lines"][0]["points"] == [[1, 8], [2, 16]] and chart["more"] == 3


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


def test_a_kafka_that_is_away_is_told_where_it_is_missed(page, live, complaints):
    """The rest of the page goes on."""
    away = {
        "error": "LogUnavailableError",
        "detail": "words.dead-letters: Kafka does not answer",
        "line": None,
        "column": None,
    }
    page.route("**/dead-letters*", lambda route: route.fulfill(status=503, json=away))
    frame = of(page, live, "words")
    part = frame.get_by_role("region", name="Dead letters", exact=True)
    expect(part.locator(".trouble.wrong")).to_have_text("words.dead-letters: Kafka does not answer")
    expect(frame.get_by_role("region", name="Tracking", exact=True)).to_contain_text("in flight")
    forgive(complaints, 503)


def test_what_a_record_holds_is_shown_as_text(page, live):
    """And does nothing."""
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    frame = of(page, live, "words")
    part = frame.get_by_role("region", name="Dead letters", exact=True)
    expect(part.locator("code").filter(has_text=HOSTILE)).to_have_count(1)
    expect(part.locator("tbody tr")).to_have_count(2)
    assert frame.locator("main img, main script").count() == 0
    assert asked == [] and page.title() != "1"


def test_a_record_that_failed_is_sent_again_when_that_is_confirmed(page, live, streams):
    """Once: then the page tells when that was."""
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
    expect(part.locator("tbody tr").last).to_contain_text("sent ")


def test_a_record_of_a_job_that_is_not_tracked_is_shown_as_it_is(page, live):
    """With the stage that failed on it; what is no text as hexadecimal digits, and found by its content."""
    frame = of(page, live, "ticks")
    part = frame.get_by_role("region", name="Dead letters", exact=True)
    expect(part.locator("tbody tr")).to_have_count(2)
    expect(part.locator("tbody tr").first).to_contain_text(re.compile("map.*ff fe 00.*not UTF-8"))
    part.get_by_label("Filter").fill("TCP")
    expect(part.locator("tbody tr")).to_have_count(1)
    expect(part.locator("code")).to_have_text("2013-01-05 10:00,x,tcp,many,0.5")


def test_a_join_tells_its_loads_and_why_they_are_so(page, live):
    """A bar a unit, heavy keys, what would be done now, and what was done."""
    frame = of(page, live, "pairs")
    part = frame.get_by_role("region", name="Join", exact=True)
    expect(part.locator(".load-bar rect.left")).to_have_count(3)
    expect(part.locator(".load-bar .limit")).to_have_count(3)
    expect(part.get_by_role("region", name="Heavy keys")).to_contain_text("150")
    decisions = frame.get_by_role("region", name="Decisions", exact=True)
    expect(decisions).to_contain_text("Next steps")
    expect(decisions.get_by_role("region", name="routing tables")).to_contain_text("is copied: cut over to it")


def test_a_key_of_a_join_is_explained(page, live, complaints):
    """By its value, typed as its column is."""
    frame = of(page, live, "pairs")
    part = frame.get_by_role("region", name="Key", exact=True)
    part.get_by_label("k (int)").fill("1")
    part.get_by_role("button", name="Look up").click()
    expect(part.locator(".summary")).to_contain_text("1 is heavy")
    expect(part.locator("tr[data-key=right]")).to_contain_text("150")
    part.get_by_label("k (int)").fill("one")
    part.get_by_role("button", name="Look up").click()
    expect(part.locator(".said.wrong")).to_have_text("'one' is no value of the column k, which has the type int")
    forgive(complaints, 422)


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
