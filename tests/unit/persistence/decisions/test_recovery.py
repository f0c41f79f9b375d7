"""What is run or fetched to have lost generations back, and what a loss now would cost."""

import pytest

from springline.persistence.decisions.recovery import RecoveryPlan, assess_risk, plan_recovery
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import CacheState, Phase
from tests.support.datasets.lineages import evicted, lineage, made, persisted, ref

COSTS = CostModel([Measurement(1000, 0.5)])
LOST = {"cache": CacheState.LOST}


def steps(plan: RecoveryPlan) -> list[tuple[str, str]]:
    """What is done, in order."""
    return [(step.action, step.ref.path) for step in plan.steps]


def test_what_is_in_the_cache_needs_nothing() -> None:
    """An empty plan that takes no time."""
    known = lineage(persisted("a"), made("b", "a"))
    assert plan_recovery(known, [ref("a"), ref("b")], COSTS) == RecoveryPlan((), {}, 0)


def test_a_persisted_target_is_fetched() -> None:
    """Not run again; the time is the link's."""
    known = lineage(persisted("a", **LOST))
    plan = plan_recovery(known, [ref("a")], COSTS)
    assert steps(plan) == [("fetch", "a")]
    assert plan.seconds == pytest.approx(0.5)


def test_a_persisted_source_is_read_where_it_is() -> None:
    """Only what was asked for is fetched."""
    known = lineage(persisted("a", **LOST), made("b", "a", **LOST))
    assert steps(plan_recovery(known, [ref("b")], COSTS)) == [("recompute", "b")]


def test_a_lost_chain_is_run_in_order_from_the_nearest_that_is_at_hand() -> None:
    """Sources before what is made of them, nothing above what still exists."""
    known = lineage(persisted("a"), made("b", "a"), made("c", "b", **LOST), evicted("d", "c"), made("e", "d", **LOST))
    plan = plan_recovery(known, [ref("e")], COSTS)
    assert steps(plan) == [("recompute", "c"), ("recompute", "d"), ("recompute", "e")]
    assert plan.seconds == pytest.approx(3.0)
    assert (
        plan.steps[0].summary == "run op on b@1 to have c@1 again, which a later step reads (1 s: as when it was made)"
    )


def test_a_shared_ancestor_is_run_once() -> None:
    """Two targets of one lost source take three runs, not four."""
    known = lineage(persisted("a"), made("b", "a", **LOST), made("c", "b", **LOST), made("d", "b", **LOST))
    assert steps(plan_recovery(known, [ref("c"), ref("d")], COSTS)) == [
        ("recompute", "b"),
        ("recompute", "c"),
        ("recompute", "d"),
    ]


def test_what_cannot_come_back_is_named_with_its_cause_and_the_rest_is_recovered() -> None:
    """One lost landing file does not stop the recovery of another's datasets."""
    known = lineage(
        made("gone", by=None, **LOST), made("a", "gone", **LOST), persisted("safe", by=None), made("b", "safe", **LOST)
    )
    plan = plan_recovery(known, [ref("a"), ref("b"), ref("gone")], COSTS)
    assert steps(plan) == [("recompute", "b")]
    cause = ("no operation is recorded that made gone@1",)
    assert plan.irrecoverable == {ref("a"): cause, ref("gone"): cause}


def test_an_unknown_target_is_irrecoverable_by_name() -> None:
    """It says that the catalog does not know it."""
    plan = plan_recovery(lineage(), [ref("x")], COSTS)
    assert plan.irrecoverable == {ref("x"): ("x@1 is not in the catalog",)}


def test_a_step_that_was_never_measured_says_so() -> None:
    """It has no prediction, and does not count in the seconds."""
    known = lineage(persisted("a"), made("b", "a", compute_seconds=None, **LOST))
    plan = plan_recovery(known, [ref("b")], COSTS)
    assert plan.steps[0].predicted is None
    assert plan.steps[0].summary.endswith("(never measured)")
    assert plan.seconds == 0


def test_at_risk_is_what_only_the_cache_has() -> None:
    """Persisted, open, retired and evicted ones are not counted."""
    known = lineage(
        persisted("safe"),
        made("open", phase=Phase.OPEN),
        made("retired", phase=Phase.RETIRED),
        evicted("evicted", "safe"),
        made("a", "safe", bytes=70),
        made("landing", by=None, bytes=5),
        made("b", "landing", bytes=3),
    )
    risk = assess_risk(known, COSTS)
    assert risk.bytes == 78
    assert (risk.recomputable, risk.recomputable_bytes, risk.recompute_seconds) == ((ref("a"),), 70, 1.0)
    assert (risk.irrecoverable, risk.irrecoverable_bytes) == ((ref("b"), ref("landing")), 8)


def test_the_seconds_at_risk_include_evicted_datasets_on_the_way() -> None:
    """They would have to be run again too."""
    known = lineage(persisted("a"), evicted("b", "a"), made("c", "b"))
    assert assess_risk(known, COSTS).recompute_seconds == 2.0
