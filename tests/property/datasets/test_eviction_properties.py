"""What no eviction may do, whatever the lineage."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.decisions.eviction import EvictionPlan, plan_eviction
from springline.persistence.model.dataset import CacheState, Phase
from springline.persistence.model.lineage import Lineage
from tests.support.datasets.lineages import lineages

replacements = st.sampled_from(["lru", "lrfu"])


def plan(known: Lineage, needed: int, replacement: str) -> EvictionPlan:
    """Nothing protected; long after everything was made."""
    return plan_eviction(known, needed, protected=frozenset(), replacement=replacement, now=100.0)


def after(known: Lineage, found: EvictionPlan) -> Lineage:
    """The lineage with the plan carried out."""
    return known.with_changes(*(replace(known.datasets[v.ref], cache=CacheState.EVICTED) for v in found.victims))


@given(lineages(settled=True), st.lists(st.integers(0, 200), min_size=1, max_size=4), replacements)
def test_every_evicted_unpersisted_dataset_is_one_repeatable_step_from_sources_at_hand(
    known: Lineage, needs: list[int], replacement: str
) -> None:
    """After one plan and after several, one upon the other."""
    for needed in needs:
        known = after(known, plan(known, needed, replacement))
        for ref, dataset in known.datasets.items():
            if dataset.cache is CacheState.EVICTED and not dataset.persisted:
                operation = known.operation_of(ref)
                assert operation is not None and operation.repeatable and operation.repeats >= 1
                assert all(known.datasets[s].available for s in dataset.sources)
                assert known.recompute_order([ref]) == ((ref,), {})


@given(lineages(), st.integers(0, 600), replacements)
def test_nothing_that_is_neither_persisted_nor_recomputable_is_a_victim(
    known: Lineage, needed: int, replacement: str
) -> None:
    """In whatever state evictions and faults left the lineage before; and no pinned one is."""
    for victim in plan(known, needed, replacement).victims:
        dataset = known.datasets[victim.ref]
        assert dataset.persisted or known.is_recomputable(victim.ref)
        assert dataset.in_cache and dataset.phase is Phase.COMMITTED and not dataset.pinned


@given(lineages(), st.integers(0, 600), replacements)
def test_no_eviction_takes_away_what_could_be_brought_back(known: Lineage, needed: int, replacement: str) -> None:
    """Every chain that could be run before can be run after."""
    _, blocked_before = known.recompute_order(known.datasets)
    later = after(known, plan(known, needed, replacement))
    _, blocked_after = later.recompute_order(known.datasets)
    assert blocked_after.keys() == blocked_before.keys()


@given(lineages(), st.integers(0, 600), replacements)
def test_enough_is_freed_or_the_plan_says_what_is_missing_and_why(
    known: Lineage, needed: int, replacement: str
) -> None:
    """If bytes are short, everything in the cache was looked at: it goes, or there is a reason why it stays."""
    found = plan(known, needed, replacement)
    assert found.freed_bytes == sum(victim.bytes for victim in found.victims)
    assert found.missing_bytes == max(needed - found.freed_bytes, 0)
    victims = {victim.ref for victim in found.victims}
    assert len(victims) == len(found.victims)
    assert not victims & found.retention_reasons.keys()
    if found.missing_bytes:
        cached = {r for r, d in known.datasets.items() if d.in_cache and d.phase is Phase.COMMITTED}
        assert cached == victims | found.retention_reasons.keys()
    assert all(found.retention_reasons.values())
