"""The pages of streams with answers that are given: health at a glance, its reason, and what one does about it.

Without Airflow and Kafka; the answers are made of the jobs of `kept_streams`, as the API makes them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.airflow.browser import Clicks, assert_for_everybody, fits
from tests.support.airflow.page_files import SITE
from tests.support.streams.declared_streams import HOSTILE, JOBS, beating
from tests.support.streams.stream_answers import Answers, stream_answers

LONG = "über-" + "orders_by_customer_" * 11 + "مجموعة"


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """What the API answers about a job of each health."""
    home = tmp_path_factory.mktemp("home")
    with beating(home):
        until = time.monotonic() + 10
        while not (home / "streams" / "fresh" / "heartbeat.json").exists():
            assert time.monotonic() < until
        yield stream_answers(home, tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def listed(clicks: Clicks, alone, replies: Answers) -> Page:
    """The list of the streams."""
    page, answers = alone
    answers.update(json.loads(json.dumps(replies)))
    page.goto(f"{SITE}/pages/streams")
    return page


@pytest.fixture
def open_job(alone, replies: Answers):
    """Opens the page of a job, with the usual answers but for the given ones."""
    page, answers = alone

    def open_page(job: str, changes: Answers | None = None) -> Page:
        answers.update({**json.loads(json.dumps(replies)), **(changes or {})})
        page.goto(f"{SITE}/pages/streams?job={job}")
        page.get_by_role("region", name="Dead letters", exact=True).wait_for()
        return page

    return open_page


# ---- questions


def test_is_my_stream_behind_and_since_when(listed: Page, clicks: Clicks) -> None:
    """Answered by the list, without a click."""
    row = listed.locator("tr[data-key=ticks]")
    expect(row).to_contain_text("4,810 messages behind, 23 s to drain: reduce is overloaded and throttles map.")
    expect(row).to_contain_text(re.compile(r"Since \d\d:\d\d:\d\d|Since \w+ \d+"))
    expect(row.locator(".state")).to_have_text("lagging")
    assert clicks.number == 0


def test_which_stage_is_slow(listed: Page, clicks: Clicks) -> None:
    """The graph at the top of the job's page marks it, in words too."""
    listed.get_by_role("link", name="ticks").click()
    part = listed.get_by_role("region", name="Stages", exact=True)
    expect(part.locator("[data-stage=reduce] .bottleneck")).to_have_text("bottleneck")
    expect(part.locator("[data-stage=map] .bottleneck")).to_have_count(0)
    expect(part).to_contain_text("Bottleneck: reduce, 95.2 % busy, 1.4 s of work queued.")
    assert clicks.number == 1


def test_which_records_failed(listed: Page, clicks: Clicks) -> None:
    """The number in the list leads to their content."""
    listed.locator("tr[data-key=ticks]").get_by_role("link", name="2", exact=True).click()
    part = listed.get_by_role("region", name="Dead letters", exact=True)
    row = part.locator("tr").filter(has_text="2013-01-05 10:00,x,tcp,many,0.5")
    expect(row).to_contain_text(re.compile(r"map.*0:4,811.*'many' is no integer"))
    expect(part.locator("h2")).to_be_in_viewport()
    assert clicks.number == 1


def test_what_does_this_key_do_to_my_join(listed: Page, clicks: Clicks) -> None:
    """Its units, tuples, probes, whether it is heavy and why, and what routing does with it."""
    listed.get_by_role("link", name="pairs").click()
    part = listed.get_by_role("region", name="Key", exact=True)
    part.get_by_label("k (int)").fill("1")
    part.get_by_label("k (int)").press("Enter")
    expect(part.locator(".summary")).to_contain_text("1 is heavy: Its tuples are split over several units, 150.0%")
    left = part.locator("tr[data-key=left]")
    expect(left).to_contain_text(re.compile(r"left.*150.*150.*A new left tuple is split over units"))
    assert clicks.number == 2


def test_why_is_my_topic_read_slowly(open_job, replies: Answers) -> None:
    """A topic that is read message by message is named, with the reason."""
    reason = "ticks is read message by message: it has messages of the format v1"
    status, answer = json.loads(json.dumps(replies["streams/ticks"]))
    answer["stages"]["map"]["slow_reading"] = reason
    page = open_job("ticks", {"streams/ticks": (status, answer)})
    expect(page.locator(".wrong").filter(has_text=f"{reason}.")).to_be_visible()


# ---- the list


def test_the_worst_job_comes_first_and_each_health_is_counted(listed: Page) -> None:
    """With its reason, and curves of those that run."""
    page = listed
    expect(page.locator("tbody tr")).to_have_count(len(JOBS))
    assert page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.key)") == list(JOBS)
    expect(page.locator(".healths")).to_have_text(
        "7 jobs1 failed1 stalled1 lagging1 starting1 ok1 stopped1 never started"
    )
    expect(page.locator("tr[data-key=crashed]")).to_contain_text("lines: Kafka at 127.0.0.1:9092 does not answer")
    expect(page.locator("tr[data-key=stuck]")).to_contain_text("Stage count has completed no round for 3 min 10 s.")
    expect(page.locator("tr[data-key=ticks] svg.sparkline")).to_have_count(2)
    expect(page.locator("tr[data-key=ticks]")).to_contain_text(re.compile(r"rows/s.*33 s behind"))
    for job in ("crashed", "pairs", "never"):  # a job that does not run claims no lag
        expect(page.locator(f"tr[data-key={job}] td").nth(2)).to_be_empty()


def test_the_list_leads_to_a_job_and_back(listed: Page, alone) -> None:
    """As the navigation of the page has it; a list without jobs says how to get one, whether or not others have any."""
    listed.get_by_role("link", name="ticks").click()
    expect(listed.locator("h2.name")).to_contain_text("ticks")
    listed.get_by_role("link", name="All streams").click()
    expect(listed.locator(".healths")).to_contain_text("7 jobs")
    _, answers = alone
    answers["streams"] = (200, {"streams": []})
    listed.goto(f"{SITE}/pages/streams")
    expect(listed.locator(".empty")).to_contain_text("There is no stream job that you may read")


# ---- states of a page


@pytest.mark.parametrize("job", ["", "ticks", "words", "pairs", "crashed", "never"])
def test_a_page_fits_and_axe_finds_nothing(alone, replies: Answers, job: str) -> None:
    """At every width and in both themes, whatever the health."""
    page, answers = alone
    answers.update(replies)
    page.goto(f"{SITE}/pages/streams{f'?job={job}' if job else ''}")
    page.locator("tbody tr, .flow").first.wait_for()
    page.wait_for_load_state("networkidle")
    assert_for_everybody(page, (1024, 1440, 2560))


def test_names_and_records_of_all_kinds_break_nothing(alone, replies: Answers, open_job) -> None:
    """Two hundred letters, right to left, HTML: as text, at the narrowest width."""
    page, answers = alone
    answers.update(json.loads(json.dumps(replies)))
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    (ticks,) = [each for each in answers["streams"][1]["streams"] if each["job"] == "ticks"]
    jobs = [{**ticks, "job": name, "health_reason": f"{name} is behind"} for name in (LONG, HOSTILE, "a\u202eb")]
    answers["streams"] = (200, {"streams": jobs})
    page.set_viewport_size({"width": 1024, "height": 900})
    page.goto(f"{SITE}/pages/streams")
    expect(page.locator("tbody tr")).to_have_count(3)
    assert fits(page)
    expect(page.get_by_role("link", name=r"a\u202eb")).to_be_visible()
    stages = json.dumps(answers["streams/ticks/backpressure"][1])
    renamed = json.loads(stages.replace('"reduce"', json.dumps(LONG)).replace('"map"', json.dumps(HOSTILE)))
    open_job("ticks", {"streams/ticks/backpressure": (200, renamed)})
    expect(page.locator(".slowest").first).to_contain_text("orders_by_customer")
    assert fits(page)
    records = page.get_by_role("region", name="Dead letters", exact=True).locator("code")
    expect(records.filter(has_text=HOSTILE)).to_have_count(1)
    assert page.locator("main img, main script").count() == 0 and asked == [] and page.title() != "1"


@pytest.mark.parametrize("away", ["backpressure", "history", "dead-letters"])
def test_a_part_that_fails_says_so_and_the_others_go_on(open_job, away: str) -> None:
    """Such as Kafka, from which only dead letters come."""
    page = open_job("ticks", {f"streams/ticks/{away}": (503, {"detail": "Kafka does not answer"})})
    names = {"backpressure": "Stages", "history": "Lag and throughput", "dead-letters": "Dead letters"}
    part = page.get_by_role("region", name=names[away], exact=True)
    expect(part.locator(".trouble.wrong")).to_have_text("Kafka does not answer")
    expect(page.locator(".trouble.wrong")).to_have_count(1)
    expect(page.locator(".verdict")).to_contain_text("4,810 messages behind")


# ---- one job


def test_a_throttle_is_drawn_from_the_slow_stage_back_to_the_one_that_it_slows(open_job) -> None:
    """Records go to the right, the arrow to the left."""
    page = open_job("ticks")
    arrow = page.locator("path[data-throttle='reduce map']")
    start, end = arrow.evaluate(
        "(path) => [path.getPointAtLength(0).x, path.getPointAtLength(path.getTotalLength()).x]"
    )
    left, right = (page.locator(f"[data-stage={name}] rect.box").bounding_box() for name in ("map", "reduce"))
    assert left and right and left["x"] < right["x"] and end < start
    expect(page.locator(".flow")).to_contain_text("throttles to 2.1 MB/s")
    expect(page.locator("[data-stage=map]")).to_contain_text(
        "in 3.4 MB/s, may take 2.1 MB/s48.2 MB queued = 23 s of work"
    )
    expect(page.locator(".throttles")).to_contain_text("reduce throttles map to 2.1 MB/s since")


def test_the_curves_of_the_lag_show_gaps_and_are_read_by_the_keyboard(open_job) -> None:
    """The three minutes without the job are no line."""
    page = open_job("ticks")
    part = page.get_by_role("region", name="Lag and throughput", exact=True)
    expect(part.locator("figure")).to_have_count(2)
    assert part.locator("path.line").first.get_attribute("d").count("M") == 2
    part.locator(".plot").first.focus()
    page.keyboard.press("End")
    expect(part.locator(".readout").first).to_contain_text("4,810 messages behind, 23 s to drain")


def test_all_that_are_shown_are_retried_together_and_what_is_refused_is_named(open_job) -> None:
    """Those that cannot be are not asked for."""
    result = {"allowed": True, "executed": True, "message": "2 records are appended to ticks. 1 are not retried: late.",
              "retried": ["0:2", "0:1"], "refused": {"0:9": "late"}}  # fmt: skip
    page = open_job("ticks", {"streams/ticks/dead-letters/retry": (200, result)})
    sent: list[dict[str, object]] = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.post_data_json))
    page.get_by_role("button", name="Retry all shown").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry 2 records").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 are not retried: late.")
    assert sent[-1] == {"records": ["0:2", "0:1"]}


def test_dead_letters_are_filtered_by_what_is_typed(alone, open_job) -> None:
    """The server searches; a record that is no text is shown as hexadecimal digits."""
    page, answers = alone
    open_job("ticks")
    part = page.get_by_role("region", name="Dead letters", exact=True)
    expect(part.locator("tr[data-key='0:2']")).to_contain_text("ff fe 00not UTF-8, shown as hexadecimal digits")
    answers["streams/ticks/dead-letters"] = (200, {"dead_letters": [], "matching": 0})
    with page.expect_request(lambda request: "contains=tcp" in request.url):
        part.get_by_label("Filter").fill("tcp")
    expect(part.locator(".empty")).to_have_text("No dead letter contains this text.")
    expect(part.get_by_label("Filter")).to_be_focused()


def test_a_user_who_may_only_read_sees_everything_and_no_button(replies: Answers, open_job) -> None:
    """Neither of the job nor of its dead letters."""
    page = open_job("ticks", {"streams/ticks": (200, {**replies["streams/ticks"][1], "may_change": False})})
    expect(page.locator(".refused")).to_contain_text("you may not edit the DAG stream_ticks")
    for name in ("Stop", "Retry all shown", "Retry: partition 0, offset 4811"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_label("Back-pressure mode")).to_be_disabled()


def test_percentiles_are_named_and_completion_has_its_offsets(open_job) -> None:
    """By partition, up to where every record is completed."""
    page = open_job("words")
    part = page.get_by_role("region", name="Tracking", exact=True)
    expect(part).to_contain_text("p50 91 ms, p90 100 ms, p99 420 ms")
    expect(part.get_by_role("region", name="Completed up to (low watermark)")).to_contain_text("700")


# ---- a join


def test_the_load_of_each_unit_is_compared_with_its_limit(open_job, replies: Answers) -> None:
    """As a bar and in words; so are the moves under way, and what it would do now and did, with its reasons."""
    status = replies["streams/pairs/join"][1]
    stored = {load["unit"]: load["stored"] for load in status["loads"] if load["used"]}
    limit = round((1 + status["max_imbalance"]) * sum(stored.values()) / len(stored))
    over = [unit for unit, tuples in stored.items() if tuples > limit]
    verdict = f"unit {over[0]} is" if len(over) == 1 else f"units {', '.join(map(str, over))} are"
    page = open_job("pairs")
    part = page.get_by_role("region", name="Join", exact=True)
    expect(part.locator(".load-bar")).to_have_count(3)
    expect(part.locator(".load-bar .limit")).to_have_count(3)
    expect(part.locator(".slowest")).to_contain_text(f"The limit is {limit} tuples a unit: {verdict} over it.")
    expect(part.locator(f"tr[data-key='unit {over[0]}']")).to_contain_text("over the limit")
    expect(part).to_contain_text("30 of 90 tuples moved, 2 pieces to go")
    expect(part.get_by_role("region", name="Heavy keys").locator("tbody tr")).to_have_count(2)
    expect(part.get_by_role("region", name="Heavy keys")).to_contain_text("split over 2 units")
    decisions = page.get_by_role("region", name="Decisions", exact=True)
    expect(decisions).to_contain_text("Next steps")
    expect(decisions.get_by_role("region", name="routing tables")).to_contain_text("is copied: cut over to it")


def test_a_heavy_key_leads_to_its_explanation_and_a_light_one_says_why_not(open_job) -> None:
    """A wrong value is refused in words."""
    page = open_job("pairs", {"streams/pairs/join/keys/x": (422, {"detail": "'x' is no value of the column k"})})
    part = page.get_by_role("region", name="Key", exact=True)
    page.get_by_role("region", name="Heavy keys").get_by_role("button", name="1", exact=True).first.click()
    expect(part.locator(".summary")).to_contain_text("1 is heavy")
    part.get_by_label("k (int)").fill("4")
    part.get_by_role("button", name="Look up").click()
    expect(part.locator(".summary")).to_contain_text(re.compile("4 is not heavy: .*not more than max_imbalance"))
    part.get_by_label("k (int)").fill("x")
    part.get_by_role("button", name="Look up").click()
    expect(part.locator(".said.wrong")).to_have_text("'x' is no value of the column k")
    expect(part.locator("table")).to_have_count(0)
