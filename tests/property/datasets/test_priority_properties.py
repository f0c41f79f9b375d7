"""Facts of the scores, whatever the lineage."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.decisions.priority import (
    IRRECOVERABLE_SECONDS,
    IRRECOVERABLE_SECONDS_PER_BYTE,
    UNPROVEN_SHARE,
    PaperPolicy,
    ValueDensityPolicy,
)
from springline.persistence.model.cost_model import CostModel, Measurement
from springline.persistence.model.dataset import Phase, UnderStoreState
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import lineages

COSTS = CostModel([Measurement(10, 1.0)])
WEIGHTS = st.tuples(st.floats(-9, -0.1), st.floats(-9, -0.1), st.floats(0.1, 9), st.floats(0.01, 1))


@given(lineages(), WEIGHTS)
def test_the_paper_never_puts_the_recomputable_before_its_equal_that_is_not(
    lineage: Lineage, weights: tuple[float, float, float, float]
) -> None:
    """With any weights of the right signs, other things being equal."""
    policy = PaperPolicy(weights)
    for ref, dataset in lineage.datasets.items():
        score = policy.score(ref, lineage, COSTS, 0.0).value
        assert policy.score(ref, lineage.with_changes(replace(dataset, call=None)), COSTS, 0.0).value >= score
        assert policy.score(ref, lineage.with_changes(replace(dataset, checkpoint=True)), COSTS, 0.0).value >= score
        assert (
            policy.score(ref, lineage.with_changes(replace(dataset, reads=dataset.reads + 1)), COSTS, 0.0).value > score
        )


def cost_of_a_loss(lineage: Lineage) -> tuple[float, float, float]:
    """What the loss of the whole cache now would cost, by brute force: running again, perhaps for good, for good."""
    needed = [
        r for r, d in lineage.datasets.items() if d.phase is Phase.COMMITTED and not d.persisted and d.persist_requested
    ]
    order, blocked = lineage.recompute_order(needed, without=frozenset(lineage.datasets))
    unproven = [r for r in lineage.without_cache().find_unproven(needed) if r not in blocked]
    lost_cost, perhaps = (
        sum(IRRECOVERABLE_SECONDS + IRRECOVERABLE_SECONDS_PER_BYTE * lineage.datasets[r].bytes for r in refs)
        for refs in (blocked, unproven)
    )
    return sum(lineage.datasets[r].compute_seconds or 0.0 for r in order), perhaps, lost_cost


@given(lineages(settled=True))
def test_value_density_saves_what_persisting_really_saves(lineage: Lineage) -> None:
    """The seconds that it says are those by which a loss of the cache becomes cheaper, worked out in full.

    Of what is recomputable, seconds of running it again, and a share of a loss for good where that is not proven; of
    what is not, those that count for a loss for good.
    """
    policy = ValueDensityPolicy(1e5)
    running, perhaps, lost_cost = cost_of_a_loss(lineage)
    for ref, dataset in lineage.datasets.items():
        if dataset.persisted or dataset.phase is not Phase.COMMITTED:
            continue
        saved = policy.score(ref, lineage, COSTS, 0.0).terms["seconds saved"]
        running_after, perhaps_after, lost_cost_after = cost_of_a_loss(
            lineage.with_changes(replace(dataset, under=UnderStoreState.PRESENT))
        )
        recomputation_saved = running - running_after + UNPROVEN_SHARE * (perhaps - perhaps_after)
        expected = recomputation_saved if lineage.is_recomputable(ref) else lost_cost - lost_cost_after
        assert saved == pytest.approx(expected), f"persisting {ref}"
