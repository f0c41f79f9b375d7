"""The page of the data at risk, with answers in the API's own shapes: the verdict, the curve, and what makes safe."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from springline.airflow.lineage.remedies import Remedy
from springline.airflow.lineage.risks import DagShare, ExposedDataset
from springline.persistence.decisions.persist_status import PersistState
from tests.support.airflow.browser import assert_for_everybody, faults
from tests.support.airflow.page_files import SITE
from tests.support.airflow.risk_answers import HOSTILE, exposed, history, risks, sample

REASONS = ["dice (version v1), which made etl/salted@1, is not idempotent"]
DECLARED = ["shout (version v1), which made etl/loud@1, is declared idempotent, but not proven"]
AWAY = "the under-store does not answer: /mnt/under does not exist: is its disk mounted?"
CATALOG_AWAY = "the catalog does not answer"
MINUTE = 60


def shown(alone, risk: dict[str, Any], past: dict[str, Any] | None = None) -> Page:
    """Open the page with these answers."""
    page, answers = alone
    answers |= {"at-risk": (200, risk), "at-risk/history": (200, past or history())}
    page.goto(f"{SITE}/pages/risk")
    expect(page.locator(".summary")).to_be_visible()
    return page


def tiles(page: Page) -> list[str]:
    """The three numbers."""
    return page.locator(".tiles dd.large").all_inner_texts()


@pytest.fixture
def salted() -> ExposedDataset:
    """A dataset that nothing brings back."""
    sentence = "Wait: it is the 1st in the queue, about 800 ms of transfers until it is persisted."
    waits = Remedy(PersistState.QUEUED, sentence, "Or make its operation dice idempotent.", False, "")
    return exposed("etl/salted", bytes=231_000, seconds=None, irrecoverable_reasons=REASONS, remedy=waits)


def test_what_would_i_lose_now_is_answered_without_a_click(alone, salted, clicks):
    """In one sentence and three numbers; the numbers stand at the end of the curve too."""
    now = time.time()
    past = history(*(sample(now - age, now - age + MINUTE, 106_000, 0, 0, 1.0) for age in (2 * MINUTE, MINUTE)))
    page = shown(alone, risks(salted, exposed("etl/clean"), timestamp=now), past)
    expect(page.locator(".summary")).to_have_text("A loss of the cache now would destroy 231 kB for good.")
    assert tiles(page) == ["231 kB", "125 kB", "1.25 s"]
    expect(page.locator(".now")).to_have_text("Now: 231 kB irrecoverable, 125 kB to be recomputed, in about 1.25 s.")
    expect(page.locator("text.mark").first).to_have_text("worst, now: 356 kB")
    assert clicks.number == 0


# ---- the verdict


@pytest.mark.parametrize(
    ("rows", "verdict", "kind"),
    [
        ([], "Nothing can be lost: every dataset that you may read is in the under-store.", "safe"),
        ([exposed("a")], "Nothing can be lost for good: proven operations would recompute everything.", "safe"),
        (
            [exposed("a", unproven_reasons=DECLARED)],
            "Nothing can be lost if operations are idempotent as declared: 125 kB rest on declarations that no second "
            "run has proven.",
            "doubtful",
        ),
        (
            [exposed("a", irrecoverable_reasons=REASONS)],
            "A loss of the cache now would destroy 125 kB for good.",
            "wrong",
        ),
    ],
)
def test_the_verdict_says_whether_it_is_proven_or_only_declared(alone, rows, verdict, kind):
    """In a colour too, never only in it."""
    page = shown(alone, risks(*rows))
    expect(page.locator(f".summary.{kind}")).to_have_text(verdict)


def test_why_nothing_is_persisted_is_said_first(alone):
    """Else one would wait for nothing; also that the under-store is away, and what to do.

    What was never measured counts as nothing, as is said beside the time.
    """
    row = exposed("a", seconds=None)
    page = shown(alone, risks(row, unmeasured=1, wait_reason="the DAG persister is paused"))
    expect(page.locator(".tiles")).to_contain_text("not counting 1 operation run that were never measured")
    expect(page.locator(".notice")).to_have_text("Nothing is being persisted now: the DAG persister is paused.")
    sentence = "Bring the under-store back; its copy counts again then."
    bring_back = Remedy(PersistState.PERSISTED, sentence, "", False, "")
    row = exposed("etl/raw", irrecoverable_reasons=REASONS, remedy=bring_back)
    page = shown(alone, risks(row, under_store_away=AWAY))
    expect(page.locator(".notice")).to_have_text(f"T{AWAY[1:]} Its copies count as at risk.")
    expect(page.locator("tbody")).to_contain_text(sentence)
    expect(page.get_by_role("button", name="Persist now")).to_have_count(0)


# ---- the curve


def test_the_worst_moment_is_marked_and_explained(alone):
    """When it was, what was at risk, and by which DAGs."""
    now = time.time()
    past = history(
        sample(now - 180, now - 120, 500_000, 0, 0, 9.0),
        sample(now - 120, now - 60, 456_000, 60_000, 300_000, 4.5),
        sample(now - 60, now, 0, 0, 0, 0.0),
        dags=tuple(DagShare(f"dag {i}", 100_000 * (5 - i), 0, 0, 1.0) for i in range(1, 5)),
    )
    page = shown(alone, risks(timestamp=now), past)
    expect(page.locator("text.mark", has_text="worst")).to_have_text("worst: 456 kB")
    worst = page.locator(".worst")
    expect(worst).to_contain_text("300 kB would have been irrecoverable, 156 kB to be recomputed (60 kB of it only if")
    expect(worst).to_contain_text("By DAG: dag 1 400 kB, dag 2 300 kB, dag 3 200 kB and 1 more.")
    expect(page.locator(".now")).to_have_text("Now: 0 B irrecoverable, 0 B to be recomputed, in about 0 ms.")


def test_what_is_not_known_is_a_gap_and_not_a_level_line(alone):
    """The line ends where the last sample before it stops to hold."""
    now = time.time()
    past = history(
        sample(now - 3600, now - 3540, 10, 0, 0, 1.0), sample(now - 3540, now - 3240, 10, 0, 0, 1.0),
        sample(now - 60, now, 10, 0, 0, 1.0),
    )  # fmt: skip
    page = shown(alone, risks(timestamp=now), past)
    expect(page.locator(".plot rect.gap")).to_have_count(2)  # one in each chart
    expect(page.locator(".legend")).to_contain_text("no samples")
    gap = page.locator(".plot rect.gap").first
    left, width = (float(gap.get_attribute(name)) for name in ("x", "width"))
    line = page.locator("path.someline").first.get_attribute("d")
    first, _ = line.removeprefix("M").split("M")  # a line on either side
    ends = max(float(each) for each in re.findall(r"[MH]([\d.]+)", f"M{first}"))
    assert ends == pytest.approx(left, abs=0.2) and width > 100


MOMENTS = """async ([samples, now]) => {
    const {momentsOf, runsOf} = await import("/pages/static/chart.js");
    const moments = momentsOf(samples, now);
    return [moments, runsOf(moments)];
}"""


def test_the_curve_ends_with_now(alone):
    """Every run of moments that are known is one line; nothing is known in the gaps between."""
    page = shown(alone, risks())
    for samples, runs in (
        ([], [1]),
        ([(0, 60), (60, 1000)], [3]),
        ([(0, 60), (60, 900)], [3]),  # asked for a while ago
        ([(0, 60), (60, 360)], [2, 1]),
        ([(0, 300), (600, 1000)], [1, 2]),
        ([(0, 1000), (1000, 1000)], [2]),  # a sample of this very moment
    ):
        history_samples = [{"timestamp": at, "known_until": until, "bytes": 1} for at, until in samples]
        moments, lines = page.evaluate(MOMENTS, [history_samples, {"timestamp": 1000, "bytes": 7}])
        assert moments[-1]["bytes"] == 7 and moments[-1]["timestamp"] == 1000
        assert [len(line) for line in lines] == runs


# ---- what makes it safe


def test_each_dataset_says_what_it_is_worth_and_what_makes_it_safe(alone, salted):
    """With a button where there is something to do, closed where one may not."""
    refused = Remedy(
        PersistState.NOT_REQUESTED, "Persist it now: its strategy is cache_only, so nothing persists it.", "",
        can_expedite=True, refusal="you may not change the DAG etl",
    )  # fmt: skip
    clean, temp = exposed("etl/clean", unproven_reasons=DECLARED), exposed("etl/temp", remedy=refused)
    page = shown(alone, risks(salted, clean, temp))
    rows = page.locator("tbody > tr[data-key]")
    assert rows.nth(0).locator("> td").all_inner_texts()[2:5] == ["231 kB", "never", "3"]
    expect(rows.nth(0)).to_contain_text("irrecoverable")
    expect(rows.nth(0)).to_contain_text("Or make its operation dice idempotent.")
    expect(rows.nth(0).get_by_role("button")).to_have_count(0)
    expect(rows.nth(1)).to_contain_text("recomputed, if idempotent as declared")
    expect(rows.nth(1).get_by_role("link")).to_have_attribute("href", "dataset?path=etl%2Fclean&generation=1")
    expect(rows.nth(2).get_by_role("button", name="Persist now: etl/temp@1")).to_be_disabled()
    expect(rows.nth(2)).to_contain_text("Not permitted: you may not change the DAG etl.")


def test_a_dataset_is_made_safe_with_two_clicks(alone, clicks):
    """The first shows the dry run, the second acts, and the page follows."""
    page, answers = alone
    dry = {"path": "etl/clean", "generation": 1, "action": "persist", "allowed": True, "executed": False,
           "message": "etl/clean@1 moves to the head of the queue"}  # fmt: skip
    answers["datasets/etl/clean/persist"] = (200, dry)
    shown(alone, risks(exposed("etl/clean")))
    with page.expect_request("**/persist") as tried:
        page.get_by_role("button", name="Persist now: etl/clean@1").click()
    assert json.loads(tried.value.post_data) == {"generation": 1, "dry_run": True}
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("etl/clean@1 moves to the head of the queue.")
    assert faults(page) == []
    answers["at-risk"] = (200, risks())
    with page.expect_request("**/persist") as request_info:
        dialog.get_by_role("button", name="Persist now").click()
    assert json.loads(request_info.value.post_data) == {"generation": 1}
    expect(page.locator(".summary.safe")).to_contain_text("Nothing can be lost: ")
    expect(page.locator("tbody > tr[data-key]")).to_have_count(0)
    assert clicks.number == 2


def test_the_datasets_are_grouped_by_dag_if_one_likes(alone, salted):
    """Each DAG with its share; the choice stays while the page updates itself."""
    page = shown(alone, risks(salted, exposed("other/count", dag_id="other"), exposed("by-hand", dag_id="")))
    page.get_by_label("by DAG").check()
    expect(page.get_by_role("heading", level=3)).to_have_text(["etl", "other", "without a DAG"])
    expect(page.locator("main")).to_contain_text("231 kB at risk, 231 kB irrecoverable, 0 ms to recompute")
    with page.expect_response("**/at-risk"):
        pass
    expect(page.get_by_role("table")).to_have_count(3)
    assert page.get_by_label("by DAG").is_checked()


# ---- for everybody


@pytest.mark.parametrize("rows", [(), tuple(exposed(path, irrecoverable_reasons=REASONS) for path in HOSTILE)])
def test_the_page_is_for_everybody(alone, rows):
    """With nothing at risk, and with names of 200 letters, from right to left, and of HTML; narrow and wide."""
    now = time.time()
    past = history(sample(now - 3600, now - 3300, 9, 3, 1, 2.0), sample(now - 60, now, 900_000, 0, 0, 2.0))
    page = shown(alone, risks(*rows, timestamp=now), past)
    expect(page.locator("tbody > tr[data-key]")).to_have_count(len(rows))
    regions = "section[aria-label='What would make it safe'] .scroll"
    if rows:
        expect(page.locator(regions)).to_have_count(1)
    assert_for_everybody(page, regions=regions if rows else "")
    assert page.locator("main script, main img").count() == 0


def test_the_keyboard_reaches_everything(alone):
    """From the curve to the action, and the values of the curve with the arrow keys."""
    now = time.time()
    page = shown(alone, risks(exposed("etl/clean"), timestamp=now), history(sample(now - 60, now, 9, 0, 0, 2.0)))
    page.get_by_label("Show").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    expect(page.locator(".readout").first).to_contain_text("125 kB to be recomputed, in about 1.25 s")
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent"))
    assert {"Persist now: etl/clean@1", "etl/clean@1", "As a table"} <= reached


# ---- the parts of the page


@pytest.mark.parametrize("away", ["at-risk", "at-risk/history"])
def test_one_half_of_the_page_at_risk_says_what_the_other_does_not_miss(alone, away):
    """Each half asks again and again; the answers to one take nothing away of what the other says."""
    page, answers = alone
    answers |= {"at-risk": (200, risks()), "at-risk/history": (200, history()), away: (503, {"detail": CATALOG_AWAY})}
    page.goto(f"{SITE}/pages/risk")
    past = page.get_by_role("region", name="Over time")
    for _ in range(2):
        with page.expect_response(re.compile("at-risk$")):
            pass
        if away == "at-risk":
            expect(page.locator("#status.wrong")).to_have_text(CATALOG_AWAY)
            expect(past).to_contain_text("Nothing was recorded in this period")
            expect(past.locator(".trouble")).to_be_empty()
        else:
            expect(past.locator(".trouble.wrong")).to_have_text(CATALOG_AWAY)
            expect(page.get_by_text("Nothing can be lost: ")).to_be_visible()
            expect(page.locator("#status")).to_be_empty()
    answers[away] = (200, risks() if away == "at-risk" else history())
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator(".wrong")).to_have_count(0)
    expect(past.get_by_label("Show")).to_be_visible()


def test_invisible_characters_in_a_text_from_outside_are_escaped(alone):
    """An error of a store, say; lines and other scripts stay as they are."""
    page, answers = alone
    error = "größe\tمجموعة \x1b[2J \u202egnp.exe \u200b \U000e0041 \x9b"
    spelled = r"größe\tمجموعة \x1b[2J \u202egnp.exe \u200b \U000e0041 \x9b".replace(r"\t", "\t")
    body = risks(exposed("a", irrecoverable_reasons=[error]))
    answers |= {"at-risk": (200, body), "at-risk/history": (503, {"detail": error})}
    page.goto(f"{SITE}/pages/risk")
    expect(page.get_by_role("region", name="Over time").locator(".trouble")).to_have_text(spelled)
    assert spelled in page.locator("main").evaluate("(main) => main.querySelector('tbody').textContent")
