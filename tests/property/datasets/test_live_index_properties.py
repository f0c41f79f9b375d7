"""The index of live generations is the catalog's state, whatever happened, and however often it was refreshed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.airflow.lineage.live_index import LiveIndex, Recovery
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.decisions.recovery import exposed_datasets
from springline.persistence.errors import TransitionError
from springline.persistence.model.dataset import CacheState, Call, Operation, Origin, Phase, Ref, Strategy
from springline.persistence.model.lineage import Lineage
from springline.persistence.model.transitions import Event
from tests.property.datasets.test_cache_loss_properties import recorded
from tests.support.datasets.recording import record

DAYS = ("2013-01-05", "2013-01-06")
OPERATIONS = {"load": (), "clean": ("load",), "count": ("clean", "load"), "salt": ("clean",)}
EVENTS = (
    Event.CACHED, Event.COMMITTED, Event.CLAIMED, Event.COPIED, Event.RELEASED, Event.EVICTED, Event.LOST,
    Event.UNDER_STORE_LOST, Event.RESTORED, Event.ABANDONED, Event.RETIRED,
)  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("make"), st.sampled_from(list(OPERATIONS)), st.sampled_from(DAYS), st.booleans()),
    st.tuples(st.just("event"), st.integers(0, 30), st.sampled_from(EVENTS)),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("pin"), st.integers(0, 30)),
    st.tuples(st.just("prove"), st.sampled_from(list(OPERATIONS)), st.booleans()),
)
database_numbers = count()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """One catalog for all examples."""
    database = Catalog(f"sqlite:///{tmp_path_factory.mktemp('index')}/catalog.db")
    yield database
    database.engine.dispose()


def state_of(index: LiveIndex) -> tuple[object, ...]:
    """All that is shown of an index."""
    index.refresh()
    edges = {edge: number for edge, number in index.edges.items() if number}
    templates = {
        name: (dict(sorted(each.cells.items())), {dag_id: n for dag_id, n in each.dag_ids.items() if n})
        for name, each in index.templates.items()
    }
    return (
        index.rows, index.places, templates, index.statuses, index.recoveries, edges, index.pinned, index.checkpoints,
        index.stale(),
    )  # fmt: skip


@given(recorded())
def test_states_and_recoveries_are_those_of_the_lineage(catalog: Catalog, lineage: Lineage) -> None:
    """Whether a lost generation comes back from what is left, and what a loss of the cache would do to the others."""
    record(catalog, lineage)
    index = LiveIndex(catalog)
    index.refresh()
    full_lineage = catalog.lineage_around([dataset.ref for dataset in catalog.find(limit=10_000)])
    by_ref = {Ref(row.path, row.generation): key for key, row in index.rows.items()}
    assert by_ref.keys() == {
        ref for ref, each in full_lineage.datasets.items() if each.phase in (Phase.OPEN, Phase.COMMITTED)
    }
    for ref, key in by_ref.items():
        expected = full_lineage.datasets[ref].status(recomputable=full_lineage.is_restorable(ref))
        assert index.statuses[key] == expected, ref
    exposed = [dataset.ref for dataset in exposed_datasets(full_lineage)]
    assert {by_ref[ref] for ref in exposed} == {row.id for row in index.exposed()}
    after = full_lineage.with_changes(*(replace(full_lineage.datasets[ref], cache=CacheState.LOST) for ref in exposed))
    _, blocked = after.recompute_order(exposed)
    unproven = after.find_unproven(exposed)
    for ref in exposed:
        expected_recovery = (
            Recovery.IRRECOVERABLE
            if ref in blocked
            else Recovery.UNPROVEN
            if ref in unproven
            else Recovery.RECOMPUTABLE
        )
        assert index.recoveries[by_ref[ref]] is expected_recovery, ref


@given(st.lists(STEP, max_size=25))
def test_an_index_that_is_refreshed_is_as_a_new_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple]
) -> None:
    """After any changes, read in any portions."""
    database = Catalog(f"sqlite:///{tmp_path_factory.getbasetemp()}/index-{next(database_numbers)}.db")
    try:
        database.register_operations(
            [Operation(name, "1", idempotent=name != "salt", output=f"etl/{{ds}}/{name}") for name in OPERATIONS]
        )
        index = LiveIndex(database)
        index.refresh()
        refs: list[Ref] = []
        for step in steps:
            apply(database, index, refs, step)
        assert state_of(index) == state_of(LiveIndex(database))
    finally:
        database.engine.dispose()


def apply(database: Catalog, index: LiveIndex, refs: list[Ref], step: tuple) -> None:
    """Do one step; what the catalog refuses does not happen."""
    match step:
        case ("make", name, day, by_dag):
            newest = {ref.path: ref for ref in refs}
            sources = [newest[path] for each in OPERATIONS[name] if (path := f"etl/{day}/{each}") in newest]
            origin = Origin("etl", f"scheduled__{day}T00:00:00+00:00", name) if by_dag else Origin()
            call = Call(name, "1", {"ds": day})
            new_dataset = database.begin(
                f"etl/{day}/{name}", call=call, sources=sources, strategy=Strategy.ASYNC_STORE, origin=origin
            )
            refs.append(new_dataset.ref)
        case ("event", number, Event.COMMITTED) if refs:
            with suppress(TransitionError):
                database.commit(refs[number % len(refs)])
        case ("event", number, event) if refs:
            with suppress(TransitionError):
                database.change(refs[number % len(refs)], event)
        case ("refresh",):
            index.refresh()
        case ("pin", number) if refs:
            database.amend(refs[number % len(refs)], event="pinned", pinned=True)
        case ("prove", name, same):
            database.record_reproduction(Call(name, "1", {}), same=same)
