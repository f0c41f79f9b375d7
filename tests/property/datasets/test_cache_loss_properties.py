"""The risk worked out on keys is that of the lineage, whatever the catalog holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.persistence.catalog.catalog import Catalog
from springline.persistence.catalog.risk_samples import risk_by_dag
from springline.persistence.decisions.recovery import assess_risk, exposed_datasets
from springline.persistence.model.dataset import CacheState, ExecutionSide, Origin, Phase, Ref
from springline.persistence.model.lineage import Lineage, postorder
from tests.support.datasets.lineages import lineages
from tests.support.datasets.recording import record


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """One catalog for all examples, in which two operations were measured."""
    database = Catalog(f"sqlite:///{tmp_path_factory.mktemp('loss')}/catalog.db")
    for name, seconds in (("good", 0.5), ("fresh", 2.0)):
        database.record_measurement(name, ExecutionSide.CACHE, bytes_in=10, seconds=seconds)
    yield database
    database.engine.dispose()


@st.composite
def recorded(draw: st.DrawFn) -> Lineage:
    """Any lineage; some of it open still, some never timed, made by several DAGs or none."""
    lineage = draw(lineages(10))  # a generation lists ten causes at most
    return lineage.with_changes(*(
        replace(
            dataset,
            phase=draw(st.sampled_from([dataset.phase, dataset.phase, Phase.OPEN])),
            compute_seconds=draw(st.sampled_from([1.0, None])),
            origin=Origin(draw(st.sampled_from(["", "one", "two"]))),
        )
        for dataset in lineage.datasets.values()
    ))  # fmt: skip


def reasons(
    catalog: Catalog,
    exposed: Iterable[int],
    others: Mapping[int, Sequence[int]],
    reason_of: Callable[[Lineage, Ref], str],
) -> dict[Ref, set[str]]:
    """Of each generation, the reasons that the generations of its row in `others` give."""
    reasons_by_ref = {}
    for key in exposed:
        keys = list(dict.fromkeys((key, *others[key])))
        alone = catalog.lineage_without_sources(keys)
        refs = dict(zip(keys, alone.datasets, strict=True))
        reasons_by_ref[refs[key]] = {reason_of(alone, refs[other]) for other in others[key]}
    return reasons_by_ref


@given(recorded(), st.booleans())
def test_the_shares_of_all_dags_add_up_to_the_risk(catalog: Catalog, lineage: Lineage, is_away: bool) -> None:
    """Bytes, those that are unproven or irrecoverable, and the seconds to run; also while the under-store is away."""
    record(catalog, lineage)
    cache_lineage = catalog.lineage_of_cache(ignore_under_store=is_away)
    expected = assess_risk(cache_lineage, catalog.load_cost_model(cache_lineage))
    loss = catalog.cache_loss(ignore_under_store=is_away)
    shares = risk_by_dag(loss, catalog.load_cost_model_of(loss.unmeasured_operations)).values()
    assert sum(share.bytes for share in shares) == expected.bytes
    assert sum(share.unproven_bytes for share in shares) == expected.unproven_bytes
    assert sum(share.irrecoverable_bytes for share in shares) == expected.irrecoverable_bytes
    assert sum(share.recompute_seconds for share in shares) == pytest.approx(expected.recompute_seconds)


@given(recorded())
def test_the_doubts_and_the_causes_are_those_of_the_lineage(catalog: Catalog, lineage: Lineage) -> None:
    """In the same words, too."""
    record(catalog, lineage)
    exposed = [dataset.ref for dataset in exposed_datasets(lineage)]
    lost = (replace(lineage.datasets[ref], cache=CacheState.LOST) for ref in exposed)
    doubts = lineage.with_changes(*lost).find_unproven(exposed)
    _, obstacles = lineage.recompute_order(exposed, without=frozenset(exposed))
    loss = catalog.cache_loss()
    actual_doubts = reasons(catalog, loss.exposed, loss.unproven_causes, Lineage.unproven_reason)
    assert actual_doubts == {ref: set(doubts.get(ref, ())) for ref in exposed}
    actual_obstacles = reasons(catalog, loss.exposed, loss.causes, Lineage.repeat_obstacle)
    assert actual_obstacles == {ref: set(obstacles.get(ref, ())) for ref in exposed}


@given(recorded())
def test_the_dependents_are_what_recomputing_needs_it_for(catalog: Catalog, lineage: Lineage) -> None:
    """Those that are at risk too, over any number of steps."""
    record(catalog, lineage)
    loss = catalog.cache_loss()
    for key in loss.exposed:
        needed = {
            other
            for other in loss.exposed
            if other != key and key in postorder([other], lambda k: loss.needs.get(k, ()))
        }
        assert set(loss.exposed_dependents(key)) == needed
