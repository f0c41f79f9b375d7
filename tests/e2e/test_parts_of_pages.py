"""Parts of a page that ask for themselves: the trouble of one is told, whatever the others are answered."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import SITE
from tests.support.airflow.risk_answers import exposed, history, risks

AWAY = {"detail": "the catalog does not answer"}


@pytest.mark.parametrize("away", ["at-risk", "at-risk/history"])
def test_one_half_of_the_page_at_risk_says_what_the_other_does_not_miss(alone, away):
    """Each half asks again and again; the answers to one take nothing away of what the other says."""
    page, answers = alone
    answers |= {"at-risk": (200, risks()), "at-risk/history": (200, history()), away: (503, AWAY)}
    page.goto(f"{SITE}/pages/risk")
    past = page.get_by_role("region", name="Over time")
    for _ in range(2):
        with page.expect_response(re.compile("at-risk$")):
            pass
        if away == "at-risk":
            expect(page.locator("#status.wrong")).to_have_text(AWAY["detail"])
            expect(past).to_contain_text("Nothing was recorded in this period")
            expect(past.locator(".trouble")).to_be_empty()
        else:
            expect(past.locator(".trouble.wrong")).to_have_text(AWAY["detail"])
            expect(page.get_by_text("Nothing can be lost: ")).to_be_visible()
            expect(page.locator("#status")).to_be_empty()
    answers[away] = (200, risks() if away == "at-risk" else history())
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator(".wrong")).to_have_count(0)
    expect(past.get_by_label("Show")).to_be_visible()


def test_what_nobody_sees_in_a_text_from_outside_is_spelled_out(alone):
    """An error of a store, say; lines and other scripts stay as they are."""
    page, answers = alone
    error = "größe\tمجموعة \x1b[2J \u202egnp.exe \u200b \U000e0041 \x9b"
    spelled = r"größe\tمجموعة \x1b[2J \u202egnp.exe \u200b \U000e0041 \x9b".replace(r"\t", "\t")
    body = risks(exposed("a", irrecoverable_reasons=[error]))
    answers |= {"at-risk": (200, body), "at-risk/history": (503, {"detail": error})}
    page.goto(f"{SITE}/pages/risk")
    expect(page.get_by_role("region", name="Over time").locator(".trouble")).to_have_text(spelled)
    assert spelled in page.locator("main").evaluate("(main) => main.querySelector('tbody').textContent")
