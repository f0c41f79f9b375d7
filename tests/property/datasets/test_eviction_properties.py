"""What no eviction may do, whatever the lineage."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.decisions.eviction import EvictionPlan, plan_eviction
from springline.persistence.model.dataset import CacheState, Phase
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import lineages

replacements = st.sampled_from(["lru", "lrfu"])


def plan(lineage: Lineage, needed: int, replacement: str) -> EvictionPlan:
    """Nothing protected; long after everything was made."""
    return plan_eviction(lineage, needed, protected=frozenset(), replacement=replacement, now=100.0)


def after(lineage: Lineage, eviction_plan: EvictionPlan) -> Lineage:
    """The lineage with the plan carried out."""
    return lineage.with_changes(
        *(replace(lineage.datasets[v.ref], cache=CacheState.EVICTED) for v in eviction_plan.victims)
    )


@given(lineages(settled=True), st.lists(st.integers(0, 200), min_size=1, max_size=4), replacements)
def test_every_evicted_unpersisted_dataset_is_one_repeatable_step_from_sources_at_hand(
    lineage: Lineage, needs: list[int], replacement: str
) -> None:
    """After one plan and after several, one upon the other."""
    for needed in needs:
        lineage = after(lineage, plan(lineage, needed, replacement))
        for ref, dataset in lineage.datasets.items():
            if dataset.cache is CacheState.EVICTED and not dataset.persisted:
                operation = lineage.operation_of(ref)
                assert operation is not None and operation.repeatable and operation.repeats >= 1
                assert all(lineage.datasets[s].available for s in dataset.sources)
                assert lineage.recompute_order([ref]) == ((ref,), {})


@given(lineages(), st.integers(0, 600), replacements)
def test_no_eviction_takes_away_what_could_be_brought_back(lineage: Lineage, needed: int, replacement: str) -> None:
    """In whatever state lineages were left before: every chain that could be run before can be run after."""
    _, blocked_before = lineage.recompute_order(lineage.datasets)
    eviction_plan = plan(lineage, needed, replacement)
    for victim in eviction_plan.victims:
        dataset = lineage.datasets[victim.ref]
        assert dataset.persisted or lineage.is_recomputable(victim.ref)
        assert dataset.in_cache and dataset.phase is Phase.COMMITTED and not dataset.pinned
    _, blocked_after = after(lineage, eviction_plan).recompute_order(lineage.datasets)
    assert blocked_after.keys() == blocked_before.keys()


@given(lineages(), st.integers(0, 600), replacements)
def test_enough_is_freed_or_the_plan_says_what_is_missing_and_why(
    lineage: Lineage, needed: int, replacement: str
) -> None:
    """If bytes are short, everything in the cache was considered: it goes, or there is a reason why it stays."""
    eviction_plan = plan(lineage, needed, replacement)
    assert eviction_plan.freed_bytes == sum(victim.bytes for victim in eviction_plan.victims)
    assert eviction_plan.missing_bytes == max(needed - eviction_plan.freed_bytes, 0)
    victims = {victim.ref for victim in eviction_plan.victims}
    assert len(victims) == len(eviction_plan.victims)
    assert not victims & eviction_plan.retention_reasons.keys()
    if eviction_plan.missing_bytes:
        cached = {r for r, d in lineage.datasets.items() if d.in_cache and d.phase is Phase.COMMITTED}
        assert cached == victims | eviction_plan.retention_reasons.keys()
    assert all(eviction_plan.retention_reasons.values())
