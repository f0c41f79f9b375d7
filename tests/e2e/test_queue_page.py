"""The page of the queue, with answers in the API's own shapes: what is sent, what is next, and why something is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from springline.persistence.decisions.persist_status import PersistState
from tests.support.airflow.browser import assert_for_everybody
from tests.support.airflow.page_files import SITE
from tests.support.airflow.risk_answers import HOSTILE, compared, entry, explanation, queue, retry, sending

PAUSED = "the DAG persister is paused"
FOCUSED = "document.activeElement.ariaLabel ?? document.activeElement.tagName + document.activeElement.textContent"


def shown(alone, body: dict[str, Any], asked: str = "") -> Page:
    """Open the page with this answer."""
    page, answers = alone
    answers["queue"] = (200, body)
    page.goto(f"{SITE}/pages/queue{asked}")
    expect(page.get_by_role("region", name="Next", exact=True)).to_be_visible()
    return page


# ---- the second question


@pytest.mark.parametrize(
    ("state", "sentence", "verdict"),
    [
        (PersistState.NOT_REQUESTED, "its strategy is cache_only, so nothing persists it", "Not to be persisted"),
        (PersistState.RETRYING, "3 attempts failed, the last one with: full; the next one starts", "Failed, and"),
        (PersistState.COPYING, "persister here:1 is sending it since 3 s: 1 MB of 4 MB", "Persisting"),
        (PersistState.STALLED, "persister here:1, which claimed it, does not renew its lease", "Its worker does not"),
        (PersistState.PERSISTED, "a verified copy is in the under-store", "Persisted"),
        (PersistState.UNCOMMITTED, "it is not committed yet; it is queued when it is committed", "Not committed"),
        (PersistState.IRRECOVERABLE, "its bytes are lost, and nothing recomputes them", "Irrecoverable"),
        (PersistState.REMOVED, "it is retired: a newer generation replaced it", "Retired or abandoned"),
    ],
)
def test_why_is_this_not_persisted_is_answered_by_one_click(alone, state, sentence, verdict, clicks):
    """Also of what is not in the queue: one types its path, and asks."""
    page, answers = alone
    answers["queue/explain"] = (200, explanation("etl/temp", state, sentence))
    shown(alone, queue())
    page.get_by_label("Why is this dataset not persisted?").fill("etl/temp")
    with page.expect_request("**/queue/explain?path=etl%2Ftemp"):
        page.get_by_role("button", name="Explain").click()
    answer = page.locator(".answer")
    expect(answer).to_contain_text(verdict)
    expect(answer).to_contain_text(f"{sentence[:1].upper()}{sentence[1:]}.")
    expect(answer.get_by_role("link", name="etl/temp@1")).to_be_visible()
    assert clicks.number == 1


def test_why_one_in_the_queue_is_not_persisted_is_answered_by_one_click(alone, clicks):
    """In one sentence, with the row before it, and how it is sent."""
    page = shown(alone, queue(entry(1, "etl/a"), entry(2, "etl/b")))
    row = page.locator("tbody > tr[data-key]").nth(1)
    row.locator("summary").click()
    opened = row.locator(".opened")
    expect(opened).to_contain_text("It comes after etl/a@1, whose score 100 is higher than its own, 50.")
    reason = "A loss of the cache would cost 12.5 s of re-running etl/b@1; persisting it takes 400 ms."
    expect(opened).to_contain_text(reason)
    expect(opened).to_contain_text("Sent as data: no run of clean has been measured yet")
    expect(opened.get_by_role("row", name="seconds saved")).to_contain_text("12.5")
    assert clicks.number == 1


def test_what_is_explained_can_be_moved_to_the_head(alone):
    """By who may; the answer follows, and so does the address of the page. For others the button is closed."""
    page, answers = alone
    place = "it is the 9th in the queue"
    reply = explanation("etl/b", PersistState.QUEUED, place, can_expedite=True, wait_reason=PAUSED)
    answers["queue/explain"] = (200, reply)
    answers["datasets/etl/b/persist"] = (200, {"allowed": True, "message": "etl/b@1 moves to the head of the queue"})
    shown(alone, queue(entry(1, "etl/a")), "?explain=etl/b")
    answer = page.locator(".answer")
    expect(answer).to_contain_text(f"Nothing is taken from the queue now: {PAUSED}.")
    answer.get_by_role("button", name="Persist now: etl/b@1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("etl/b@1 moves to the head of the queue.")
    answers["queue/explain"] = (200, {**reply, "sentence": "it is the 1st in the queue", "can_expedite": False})
    with page.expect_request("**/persist") as request_info:
        dialog.get_by_role("button", name="Persist now").click()
    assert json.loads(request_info.value.post_data) == {"generation": 1}
    expect(answer).to_contain_text("It is the 1st in the queue.")
    expect(answer.get_by_role("button")).to_have_count(0)
    refusal = "you may not change the DAG etl"
    refused = explanation("a", PersistState.QUEUED, "it is the 2nd", can_expedite=True, refusal=refusal)
    answers["queue/explain"] = (200, refused)
    shown(alone, queue(), "?explain=a")
    expect(page.get_by_role("button", name="Persist now: a@1")).to_be_disabled()
    expect(page.locator(".refused")).to_have_text("Not permitted: you may not change the DAG etl.")


def test_a_name_may_have_the_number_of_its_generation(alone):
    """As it is written everywhere else."""
    page = shown(alone, queue())
    code = "async (text) => (await import('/pages/static/explainer.js')).parseName(text)"
    for text, path, generation in (
        ("etl/a", "etl/a", None), (" etl/a@3 ", "etl/a", "3"), ("a@b@12", "a@b", "12"), ("a@", "a@", None),
        ("", "", None),
    ):  # fmt: skip
        assert page.evaluate(code, text) == {"path": path, "generation": generation}


def test_what_is_not_there_is_said_of_a_name(alone):
    """And one can ask for another one."""
    page, answers = alone
    answers["queue/explain"] = (404, {"detail": "etl/none was never written"})
    shown(alone, queue(), "?explain=etl/none")
    expect(page.locator(".trouble.wrong")).to_have_text("etl/none was never written")
    reply = explanation("etl/a", PersistState.PERSISTED, "a verified copy is in the under-store")
    answers["queue/explain"] = (200, reply)
    page.get_by_label("Why is this dataset not persisted?").fill("etl/a")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("A verified copy is in the under-store.")
    expect(page.locator(".trouble")).to_be_empty()
    assert page.url.endswith("/pages/queue?explain=etl%2Fa")


# ---- what is sent, what failed, what is next


def test_the_page_says_how_much_there_is_and_until_when(alone):
    """In datasets, bytes and seconds."""
    page = shown(alone, queue(entry(1, "a"), entry(2, "b"), sending=[sending("c")]))
    titles, numbers = (page.locator(f".tiles {tag}").all_text_contents() for tag in ("dt", "dd"))
    assert dict(zip(titles, numbers, strict=True)) == {
        "in the queue": "3 datasets", "to persist": "3.75 MB", "empty in about": "800 ms", "oldest waiting for": "35 s",
        "policy": "value-density",
    }  # fmt: skip
    expect(page.locator(".notice")).to_have_count(0)


def test_why_nothing_is_sent_is_said_first(alone):
    """A persister that is paused, or an under-store that is away, which counts more."""
    page, answers = alone
    shown(alone, queue(entry(1, "a"), wait_reason=PAUSED))
    expect(page.locator(".notice")).to_have_text(f"Nothing is being sent: {PAUSED}.")
    body = queue(entry(1, "a"), wait_reason=PAUSED, under_store_away="the under-store does not answer")
    answers["queue"] = (200, body)
    expect(page.locator(".notice")).to_have_text("Nothing can be persisted now: the under-store does not answer.")
    expect(page.locator(".tiles")).to_contain_text("unknown")


@pytest.mark.parametrize(
    ("changes", "share", "text"),
    [
        ({}, 0.25, "20 MB of 80 MB (25 %) in 4 s, predicted 15 s; about 12 s left"),
        ({"sent_bytes": 0}, 0.0, "0 B of 80 MB (0 %) in 4 s, predicted 15 s"),
        ({"sent_bytes": 80_000_000, "predicted_seconds": None}, 1.0, "80 MB of 80 MB (100 %) in 4 s"),
        ({"method": "operation", "predicted_seconds": 5.0}, 0.8, "running for 4 s, predicted 5 s"),
        ({"method": "operation", "predicted_seconds": 2.0}, 0.99, "running for 4 s, predicted 2 s"),
        ({"method": "operation", "predicted_seconds": None}, None, "running for 4 s"),
        ({"bytes": 0, "sent_bytes": 0, "predicted_seconds": 0.0}, None, "running for 4 s, predicted 0 ms"),
    ],
)
def test_what_is_sent_shows_its_progress(alone, changes, share, text):
    """Data by its bytes, an operation by its time; one that takes longer than predicted is not shown as complete."""
    page, answers = alone
    shown(alone, queue(sending=[sending("etl/hours", **changes)]))
    row = page.get_by_role("region", name="Sent now").first.locator("tbody > tr[data-key]")
    expect(row).to_contain_text(text)
    bar = row.get_by_role("progressbar", name="Progress of etl/hours@1")
    assert bar.get_attribute("value") == (None if share is None else f"{share:g}")
    if changes == {}:
        answers["queue"] = (200, queue(sending=[sending("etl/hours", sent_bytes=60_000_000)]))
        expect(row).to_contain_text("60 MB of 80 MB (75 %)")
        assert bar.evaluate("(bar) => bar.value") == 0.75


def test_what_failed_is_tried_again_at_once_if_one_likes(alone):
    """It says how often it failed, why, and when it is tried again."""
    page = shown(alone, queue(retries=[retry("etl/days"), retry("etl/old", refusal="you may not change the DAG etl")]))
    rows = page.get_by_role("region", name="Failed, and tried again later").first.locator("tbody > tr[data-key]")
    for text in ("2 times", "19 s", "the under-store is full: 3 MB are needed, 1.2 MB are free"):
        expect(rows.nth(0)).to_contain_text(text)
    expect(rows.nth(0).get_by_role("button", name="Persist now: etl/days@1")).to_be_enabled()
    expect(rows.nth(1).get_by_role("button", name="Persist now: etl/old@1")).to_be_disabled()


def test_another_policy_stands_beside_the_real_order(alone):
    """Which stays as it is: only the moves are shown."""
    page, answers = alone
    rows = [compared(entry(1, "a"), 3), compared(entry(2, "b"), 2), compared(entry(3, "c"), 1)]
    shown(alone, queue(*[entry(i, path) for i, path in enumerate("abc", 1)]))
    answers["queue"] = (200, queue(*rows, what_if="paper"))
    with page.expect_request("**/queue?what_if=paper&limit=50"):
        page.get_by_label("What if: compare with the policy").select_option("paper")
    cells = page.locator("tbody > tr[data-key]").locator("> td:nth-child(-n+2)")
    expect(page.locator("thead th").nth(1)).to_have_text("by paper")
    assert cells.all_inner_texts() == ["1", "3 ↓2", "2", "2 =", "3", "1 ↑2"]
    page.locator("summary").first.click()
    expect(page.locator(".opened").first).to_contain_text("By the policy paper it would be number 3: its operation is")
    assert page.url.endswith("?what_if=paper")


def test_a_row_has_its_costs_and_its_score_as_a_bar_with_its_number(alone):
    """With units; what nothing recomputes costs no seconds."""
    first = entry(1, "a", irrecoverable=True, recompute_seconds=None)
    page = shown(alone, queue(first, entry(2, "b", method="operation")))
    rows = page.locator("tbody > tr[data-key]")
    assert [text.strip() for text in rows.nth(0).locator("> td").all_inner_texts()[2:]] == [
        "1.25 MB", "never", "400 ms", "400 ms", "35 s", "100", "≡ data",
    ]  # fmt: skip
    expect(rows.nth(1)).to_contain_text("ƒ operation")
    widths = [float(rows.nth(i).locator("rect.filled").get_attribute("width")) for i in (0, 1)]
    assert widths == [64, 32]


def test_a_bar_is_as_long_as_its_share_of_the_best_score(alone):
    """Logarithmic where scores differ by orders of magnitude; never so short that it is not seen."""
    page = shown(alone, queue())
    code = "async (scores) => (await import('/pages/static/queue_rows.js')).barLengths(scores)"
    for scores, lengths in (
        ([], []), ([5], [1]), ([100, 50, 1], [1, 0.5, 0.03]), ([1e6, 1e3, 1], [1, 0.5, 0.03]),
        ([-3, -6, -6], [0.5, 0.03, 0.03]), ([0, 0], [1, 1]), ([2, 0, -2], [1, 0.5, 0.03]),
    ):  # fmt: skip
        assert page.evaluate(code, scores) == pytest.approx(lengths)


def test_an_empty_queue_is_said_to_be_good_news(alone):
    """And one of which one may read nothing is marked."""
    page, answers = alone
    shown(alone, queue())
    news = "The queue is empty: everything that is to be persisted is in the under-store."
    expect(page.locator(".empty")).to_have_text(news)
    answers["queue"] = (200, queue(depth=4))
    expect(page.locator(".empty")).to_contain_text("No dataset that you may read waits for its turn.")


# ---- for everybody


def test_the_page_is_for_everybody(alone):
    """With names of 200 letters, from right to left, and of HTML, everywhere; at both ends of the widths."""
    page, answers = alone
    rows = [
        compared(entry(i, path, last_error=path, waits_for=[f"{path}@1"]), 4 - i) for i, path in enumerate(HOSTILE, 1)
    ]
    reply = explanation(HOSTILE[0], PersistState.QUEUED, f"it waits for {HOSTILE[2]}@1", wait_reason=PAUSED)
    answers["queue/explain"] = (200, reply)
    body = queue(
        *rows, what_if="paper", sending=[sending(path) for path in HOSTILE], retries=[retry(path) for path in HOSTILE]
    )
    shown(alone, body, "?explain=a&what_if=paper")
    page.locator("tbody summary").nth(1).click()
    expect(page.locator(".answer")).to_be_visible()
    assert_for_everybody(page, regions=".scroll")
    assert page.locator("main script, main img").count() == 0


def test_the_keyboard_reaches_everything(alone):
    """The box for a name, its button, the other policies, the rows and their reasons."""
    page = shown(alone, queue(entry(1, "etl/a"), retries=[retry("etl/days")]))
    page.locator("main").focus()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    assert {"Persist now: etl/days@1", "Aetl/a@1", "SUMMARYWhy first", "BUTTONExplain"} <= set(reached)
    assert any(each.startswith("INPUT") for each in reached) and any(each.startswith("SELECT") for each in reached)
