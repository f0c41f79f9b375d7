"""What is run or fetched to have lost generations back, and what a loss now would cost."""

import pytest

from springline.persistence.decisions.recovery import RecoveryPlan, plan_recovery
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import CacheState
from tests.support.datasets.lineages import cached, evicted, lineage_of, persisted, ref

COSTS = CostModel([Measurement(1000, 0.5)])
LOST = {"cache": CacheState.LOST}


def steps(plan: RecoveryPlan) -> list[tuple[str, str]]:
    """What is done, in order."""
    return [(step.action, step.ref.path) for step in plan.steps]


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


def test_what_cannot_come_back_is_named_with_its_cause_and_the_rest_is_recovered() -> None:
    """One lost landing file, or a target that nobody knows, does not stop the recovery of another's datasets."""
    lineage = lineage_of(
        cached("gone", by=None, **LOST),
        cached("a", "gone", **LOST),
        persisted("safe", by=None),
        cached("b", "safe", **LOST),
    )
    plan = plan_recovery(lineage, [ref("a"), ref("b"), ref("gone"), ref("x")], COSTS)
    assert steps(plan) == [("recompute", "b")]
    cause, unknown = ("no operation is recorded for gone@1",), ("x@1 is not in the catalog",)
    assert plan.irrecoverable == {ref("a"): cause, ref("gone"): cause, ref("x"): unknown}
