"""What is run or fetched to have lost generations back, and what a loss now would cost."""

import pytest

from springline.persistence.decisions.recovery import RecoveryPlan, assess_risk, plan_recovery
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import CacheState, Phase
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref

COSTS = CostModel([Measurement(1000, 0.5)])
LOST = {"cache": CacheState.LOST}


def steps(plan: RecoveryPlan) -> list[tuple[str, str]]:
    """What is done, in order."""
    return [(step.action, step.ref.path) for step in plan.steps]


def test_what_is_in_the_cache_needs_nothing() -> None:
    """An empty plan that takes no time."""
    lineage = lineage_of(persisted("a"), cached("b", "a"))
    assert plan_recovery(lineage, [ref("a"), ref("b")], COSTS) == RecoveryPlan((), {}, 0)


def test_a_persisted_target_is_fetched() -> None:
    """Not run again; the time is the link's."""
    lineage = lineage_of(persisted("a", **LOST))
    plan = plan_recovery(lineage, [ref("a")], COSTS)
    assert steps(plan) == [("fetch", "a")]
    assert plan.seconds == pytest.approx(0.5)


def test_a_persisted_source_is_read_where_it_is() -> None:
    """Only what was asked for is fetched."""
    lineage = lineage_of(persisted("a", **LOST), cached("b", "a", **LOST))
    assert steps(plan_recovery(lineage, [ref("b")], COSTS)) == [("recompute", "b")]


def test_a_lost_chain_is_run_in_order_from_the_nearest_that_is_at_hand() -> None:
    """Sources before what is made of them, nothing above what still exists."""
    lineage = lineage_of(
        persisted("a"), cached("b", "a"), cached("c", "b", **LOST), evicted("d", "c"), cached("e", "d", **LOST)
    )
    plan = plan_recovery(lineage, [ref("e")], COSTS)
    assert steps(plan) == [("recompute", "c"), ("recompute", "d"), ("recompute", "e")]
    assert plan.seconds == pytest.approx(3.0)
    assert (
        plan.steps[0].summary == "run op on b@1 to recompute c@1, which a later step reads (1 s: as in its first run)"
    )


def test_a_shared_ancestor_is_run_once() -> None:
    """Two targets of one lost source take three runs, not four."""
    lineage = lineage_of(persisted("a"), cached("b", "a", **LOST), cached("c", "b", **LOST), cached("d", "b", **LOST))
    assert steps(plan_recovery(lineage, [ref("c"), ref("d")], COSTS)) == [
        ("recompute", "b"),
        ("recompute", "c"),
        ("recompute", "d"),
    ]


def test_what_cannot_come_back_is_named_with_its_cause_and_the_rest_is_recovered() -> None:
    """One lost landing file does not stop the recovery of another's datasets."""
    lineage = lineage_of(
        cached("gone", by=None, **LOST),
        cached("a", "gone", **LOST),
        persisted("safe", by=None),
        cached("b", "safe", **LOST),
    )
    plan = plan_recovery(lineage, [ref("a"), ref("b"), ref("gone")], COSTS)
    assert steps(plan) == [("recompute", "b")]
    cause = ("no operation is recorded for gone@1",)
    assert plan.irrecoverable == {ref("a"): cause, ref("gone"): cause}


def test_an_unknown_target_is_irrecoverable_by_name() -> None:
    """It says that the catalog does not know it."""
    plan = plan_recovery(lineage_of(), [ref("x")], COSTS)
    assert plan.irrecoverable == {ref("x"): ("x@1 is not in the catalog",)}


def test_a_step_that_was_never_measured_says_so() -> None:
    """It has no prediction, and does not count in the seconds."""
    lineage = lineage_of(persisted("a"), cached("b", "a", compute_seconds=None, **LOST))
    plan = plan_recovery(lineage, [ref("b")], COSTS)
    assert plan.steps[0].predicted is None
    assert plan.steps[0].summary.endswith("(never measured)")
    assert plan.seconds == 0


def test_at_risk_is_what_only_the_cache_has() -> None:
    """Persisted, open, retired and evicted ones are not counted."""
    lineage = lineage_of(
        persisted("safe"),
        cached("open", phase=Phase.OPEN),
        cached("retired", phase=Phase.RETIRED),
        evicted("evicted", "safe"),
        cached("a", "safe", bytes=70),
        cached("landing", by=None, bytes=5),
        cached("b", "landing", bytes=3),
    )
    risk = assess_risk(lineage, COSTS)
    assert risk.bytes == 78
    assert (risk.recomputable, risk.recomputable_bytes, risk.recompute_seconds) == ((ref("a"),), 70, 1.0)
    assert (risk.irrecoverable, risk.irrecoverable_bytes) == ((ref("b"), ref("landing")), 8)


def test_the_seconds_at_risk_include_evicted_datasets_on_the_way() -> None:
    """They would have to be run again too."""
    lineage = lineage_of(persisted("a"), evicted("b", "a"), cached("c", "b"))
    assert assess_risk(lineage, COSTS).recompute_seconds == 2.0
