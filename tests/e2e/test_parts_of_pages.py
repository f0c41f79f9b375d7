"""Parts of a page that ask for themselves: the trouble of one is told, whatever the others are answered."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import SITE

SAFE = {
    "under_store_away": "", "datasets": 0, "irrecoverable_bytes": 0, "unproven_bytes": 0, "recomputable_bytes": 0,
    "recompute_seconds": 0,
    "exposed_datasets": [],
}  # fmt: skip
AWAY = {"detail": "the catalog does not answer"}


def test_the_page_at_risk_says_that_the_under_store_is_away(alone):
    """And of which datasets only the catalog says that they are persisted."""
    page, answers = alone
    row = {
        "path": "etl/raw", "generation": 1, "bytes": 790, "seconds": None,
        "irrecoverable_reasons": ["load is not idempotent"],
        "unproven_reasons": [], "is_queued": True, "is_unreachable_copy": True, "dag_id": "etl", "run_id": "day 1",
        "task_id": "raw",
    }  # fmt: skip
    away = "the under-store does not answer: /mnt/under does not exist: is its disk mounted?"
    risk = {**SAFE, "under_store_away": away, "datasets": 1, "irrecoverable_bytes": 790, "exposed_datasets": [row]}
    answers |= {"at-risk": (200, risk), "at-risk/history": (200, [])}
    page.goto(f"{SITE}/pages/risk")
    expect(page.locator(".summary.wrong")).to_have_text(
        "The under-store does not answer: /mnt/under does not exist: is its disk mounted? Its copies count as at risk. "
        "If the cache were lost now: 790 B would be irrecoverable; nothing would have to be recomputed."
    )
    expect(page.get_by_text("persisted; the under-store is unavailable")).to_be_visible()


@pytest.mark.parametrize("away", ["at-risk", "at-risk/history"])
def test_one_half_of_the_page_at_risk_says_what_the_other_does_not_miss(alone, away):
    """Each half asks again and again; the answers to one take nothing away of what the other says."""
    page, answers = alone
    answers |= {"at-risk": (200, SAFE), "at-risk/history": (200, []), away: (503, AWAY)}
    page.goto(f"{SITE}/pages/risk")
    past = page.get_by_role("region", name="Over time")
    for _ in range(2):
        with page.expect_response(re.compile("at-risk$")), page.expect_response(re.compile("at-risk/history")):
            pass
        if away == "at-risk":
            expect(page.locator("#status.wrong")).to_have_text(AWAY["detail"])
            expect(past).to_contain_text("Nothing was recorded in this period.")
            expect(past.locator(".trouble")).to_be_empty()
        else:
            expect(past.locator(".trouble.wrong")).to_have_text(AWAY["detail"])
            expect(page.get_by_text("nothing that you may read would be lost")).to_be_visible()
            expect(page.locator("#status")).to_be_empty()
    answers[away] = (200, SAFE if away == "at-risk" else [])
    expect(page.locator(".wrong")).to_have_count(0)
    expect(past.get_by_label("Show")).to_be_visible()


def test_what_nobody_sees_in_a_text_from_outside_is_spelled_out(alone):
    """An error of a store, say; lines and other scripts stay as they are."""
    page, answers = alone
    error = "größe\tمجموعة \x1b[2J \u202egnp.exe \u200b \U000e0041 \x9b"
    spelled = r"größe\tمجموعة \x1b[2J \u202egnp.exe \u200b \U000e0041 \x9b".replace(r"\t", "\t")
    row = {
        "path": "a",
        "generation": 1,
        "bytes": 1,
        "seconds": None,
        "irrecoverable_reasons": [error],
        "unproven_reasons": [],
    }
    body = {**SAFE, "datasets": 1, "irrecoverable_bytes": 1, "exposed_datasets": [row]}
    answers |= {"at-risk": (200, body), "at-risk/history": (503, {"detail": error})}
    page.goto(f"{SITE}/pages/risk")
    expect(page.get_by_role("region", name="Over time").locator(".trouble")).to_have_text(spelled)
    assert spelled in page.locator("main").evaluate("(main) => main.querySelector('tbody').textContent")
