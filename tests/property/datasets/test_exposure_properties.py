"""The cost of a loss, replayed change by change, is that of the lineage as it was; no change looks at them all."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.decisions.exposure import LossReplay, find_worst_exposure
from springline.persistence.decisions.recovery import Risk, assess_risk
from springline.persistence.model.cost_model import CostModel
from springline.persistence.model.dataset import CacheState, Phase, Ref, StateChange, UnderStoreState
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import chain_of, lineages

COSTS = CostModel()


def cost_of(risk: Risk) -> tuple[int, int, int, int]:
    """A risk as the replay counts it."""
    nanoseconds = round(risk.recompute_seconds * 1e9)
    return (risk.irrecoverable_bytes, risk.unproven_bytes, nanoseconds, risk.bytes)


def moment(ref: Ref, at: float, phase: Phase, cache: CacheState, under: UnderStoreState) -> StateChange:
    """A change of state."""
    return StateChange(ref, at, "changed", phase, cache, under, "", "")


@st.composite
def histories(draw: st.DrawFn) -> tuple[Lineage, list[StateChange]]:
    """A lineage and changes of some of its generations; each generation begins before what is made from it."""
    lineage = draw(lineages(8))
    refs = list(lineage.datasets)
    changing = draw(st.lists(st.sampled_from(refs), unique=True))
    first = [ref for ref in refs if ref in changing]
    later = draw(st.lists(st.sampled_from(first), max_size=20)) if first else []
    states = st.tuples(st.sampled_from(Phase), st.sampled_from(CacheState), st.sampled_from(UnderStoreState))
    return lineage, [moment(ref, float(at), *draw(states)) for at, ref in enumerate(first + later)]


@given(histories(), st.integers(0, 20))
def test_a_replay_costs_at_each_moment_what_the_lineage_of_that_moment_does_and_the_worst_is_the_worst_of_all(
    history: tuple[Lineage, list[StateChange]], since: int
) -> None:
    """Whatever changes, in whatever order; the worst is one of those since then, none where nothing has changed."""
    lineage, moments = history
    replay = LossReplay(lineage, COSTS, {each.ref for each in moments})
    was = {ref: dataset for ref, dataset in lineage.datasets.items() if ref not in {each.ref for each in moments}}
    assert replay.cost == cost_of(assess_risk(replace(lineage, datasets=was), COSTS))
    after = {}
    for each in moments:
        replay.apply(each)
        changed = replace(lineage.datasets[each.ref], phase=each.phase, cache=each.cache, under=each.under)
        was = {**was, each.ref: changed}
        assert replay.cost == cost_of(assess_risk(replace(lineage, datasets=was), COSTS))
        if each.timestamp >= since:
            after[each.timestamp] = replay.cost
    worst = find_worst_exposure(lineage, moments, COSTS, since=float(since))
    assert (worst is None) == (not after)
    if worst is not None:
        assert after[worst.timestamp] == max(after.values()) == cost_of(worst.risk)


def test_a_change_costs_what_it_touches_and_not_what_there_is() -> None:
    """A chain of ten thousand, persisted from its beginning on: each step looks at a handful."""
    lineage = chain_of(10_000)
    looked = 0

    class Counting(LossReplay):
        def _fate_of(self, ref: Ref) -> int:
            nonlocal looked
            looked += 1
            return super()._fate_of(ref)

    replay = Counting(lineage, COSTS)
    looked = 0
    for at, ref in enumerate(lineage.datasets):
        replay.apply(moment(ref, float(at), Phase.COMMITTED, CacheState.PRESENT, UnderStoreState.PRESENT))
    assert replay.cost == (0, 0, 0, 0)
    assert looked < 5 * len(lineage.datasets)
