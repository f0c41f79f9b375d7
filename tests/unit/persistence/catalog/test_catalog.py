"""The catalog: generations, what runs see of them, operations and their codes, and what was measured."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event

from springline.persistence.errors import UnknownDatasetError
from springline.persistence.model.dataset import (
    Call,
    Dataset,
    ExecutionSide,
    Operation,
    Origin,
    Phase,
    Ref,
    Strategy,
    TransferMethod,
    UnderStoreState,
)
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, lines_of
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import let_go, measured, wipe_cache

RUN = Origin("etl", "run 1", "task")
ANOTHER_TASK = Origin("etl", "run 1", "another task")


def registered(platform: Platform, *operations: Operation) -> list[Ref]:
    """Register operations and return what went to the head of the queue."""
    return platform.catalog.register_operations(operations)


# ---- generations


def test_a_prefix_is_the_beginning_of_a_path_letter_by_letter(platform: Platform) -> None:
    """Small letters are others than large ones, and no letter stands for others; whatever the database is."""
    for path in ("x/a", "x/a_%b", "X/a", "é/a", "É/a"):
        platform.catalog.begin(path, strategy=Strategy.ASYNC_STORE)
    fits = {"x/": {"x/a", "x/a_%b"}, "X/": {"X/a"}, "x/a_": {"x/a_%b"}, "x/%": set(), "É": {"É/a"}}
    paths = {prefix: {each.ref.path for each in platform.catalog.find(prefix=prefix)} for prefix in fits}
    assert paths == fits


def test_writers_that_begin_the_same_path_at_once_get_different_generations(open_at: Callable[..., Platform]) -> None:
    """Each its own number, none skipped."""
    platforms = [open_at() for _ in range(4)]
    barrier = threading.Barrier(4)

    def begin(platform: Platform) -> int:
        barrier.wait()
        return platform.catalog.begin("a", strategy=Strategy.ASYNC_STORE).ref.generation

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(begin, platforms)) == [1, 2, 3, 4]


def test_a_source_that_is_not_known_is_refused(platform: Platform) -> None:
    """And nothing of the generation stays."""
    with pytest.raises(UnknownDatasetError, match="x@3"):
        platform.catalog.begin("a", sources=[Ref("x", 3)], strategy=Strategy.ASYNC_STORE)
    assert platform.catalog.find() == []


def test_everything_that_was_recorded_is_read_back(platform: Platform) -> None:
    """Call, parameters, sources in their order, origin, report."""
    sources = [make(platform, path, "load").ref for path in ("x", "y")]
    registered(platform, Operation("op", "v1", idempotent=True))
    call = Call("op", "v1", {"ds": "2013-01-05", "name": "Zürich"})
    generation = platform.catalog.begin(
        "a", call=call, sources=[sources[1], sources[0], sources[1]], strategy=Strategy.CACHE_THROUGH, origin=RUN,
        checkpoint=True, persist_requested=False, expected_bytes=77,
    )  # fmt: skip
    platform.catalog.amend(generation.ref, report={"passed": True})
    record = platform.catalog.get(generation.ref)
    assert (record.call, record.sources) == (call, (sources[1], sources[0], sources[1]))
    assert (record.origin, record.strategy) == (RUN, Strategy.CACHE_THROUGH)
    assert (record.checkpoint, record.persist_requested) == (True, False)
    assert (record.report, record.bytes, record.phase) == ({"passed": True}, 77, Phase.OPEN)


def test_every_change_is_logged_with_who_and_why(platform: Platform) -> None:
    """In the order in which it was made, with the state that followed; a new score is no change."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    platform.catalog.amend(dataset.ref, score=3.0)
    moments = platform.catalog.history(dataset.ref)
    assert [m.event for m in moments] == ["opened", Event.CACHED, Event.CLAIMED, Event.COPIED, Event.COMMITTED]
    assert {m.actor for m in moments} == {"test"} and "data by writer" in moments[3].reason
    last = moments[-1]
    assert (last.phase, last.cache, last.under) == (dataset.phase, dataset.cache, dataset.under)
    assert [m.timestamp for m in moments] == sorted(m.timestamp for m in moments)
    assert platform.catalog.history(since=last.timestamp + 1) == []


# ---- finding


def test_find_takes_any_mix_of_filters(platform: Platform) -> None:
    """The newest first, at most so many."""
    make(platform, "etl/1/a", lines=["x"], origin=RUN)
    make(platform, "etl/1/a", lines=["y"])
    make(platform, "etl/10/a", lines=["z"], origin=Origin("etl", "run 2", "task"))
    find = platform.catalog.find
    assert [d.ref for d in find(path="etl/1/a")] == [Ref("etl/1/a", 2), Ref("etl/1/a", 1)]
    assert [d.ref for d in find(origin=RUN)] == [Ref("etl/1/a", 1)]
    assert len(find(origin=Origin(dag_id="etl"))) == 2
    assert [d.ref for d in find(superseded=True)] == [Ref("etl/1/a", 1)]
    assert len(find(limit=2)) == 2 and find(phase=Phase.OPEN) == []
    assert platform.catalog.dag_ids() == ["", "etl"]
    assert [d.origin.run_id for d in find(dag_ids=["etl", "other"])] == ["run 2", "run 1"] and find(dag_ids=[]) == []
    assert [d.origin.run_id for d in find(run_ids=["run 1", "run 3"])] == ["run 1"] and find(run_ids=[]) == []


def test_what_failed_takes_the_place_of_nothing_that_lives(platform: Platform) -> None:
    """However often a write was tried since."""
    make(platform, "a", "load")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), platform.store.write("b", strategy=Strategy.ASYNC_STORE):
            raise ZeroDivisionError
    assert [d.ref for d in platform.catalog.find(live=True, limit=2)] == [Ref("a", 1)]
    assert len(platform.catalog.find()) == 4


def test_what_was_made_directly_from_a_generation_is_found(platform: Platform) -> None:
    """From that generation, the newest first."""
    for _ in range(2):
        make(platform, "a", "load")
        make(platform, "b", "shout", ["a"])
    make(platform, "c", "shout", ["b"])
    assert [d.ref for d in platform.catalog.find_children(Ref("a", 1))] == [Ref("b", 1)]
    assert [d.ref for d in platform.catalog.find_children(Ref("b", 2))] == [Ref("c", 1)]
    assert platform.catalog.find_children(Ref("c", 1)) == []


def test_get_all_keeps_the_order_and_names_what_is_missing(platform: Platform) -> None:
    """Many at once, also the same one twice, also pairs that share numbers."""
    for path in ("a", "b", "a"):
        make(platform, path, "load")
    refs = [Ref("b", 1), Ref("a", 2), Ref("a", 1), Ref("a", 2)]
    assert [d.ref for d in platform.catalog.get_all(refs)] == refs
    with pytest.raises(UnknownDatasetError, match="b@2"):
        platform.catalog.get_all([Ref("a", 1), Ref("b", 2)])


# ---- DAG runs


def test_a_run_sees_what_was_committed_when_its_first_task_began_and_what_it_wrote(platform: Platform) -> None:
    """Commits count, not beginnings; every task of a run says that it began, and the first one counts."""
    make(platform, "a", lines=["old"])
    with platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        platform.store.begin_run(RUN)
        writing.mark_complete(platform.runner.run(Call("load", "1"), [], writing.uri))
    platform.store.begin_run(ANOTHER_TASK)
    assert lines_of(platform, "a", RUN) == ["old"] and len(lines_of(platform, "a")) == 100
    make(platform, "b", lines=["theirs"], origin=Origin("etl", "run 2", "task"))
    with pytest.raises(UnknownDatasetError, match="for this run"):
        lines_of(platform, "b", RUN)
    make(platform, "b", lines=["mine"], origin=ANOTHER_TASK)
    assert lines_of(platform, "b", RUN) == ["mine"]


def test_a_run_of_another_dag_with_the_same_name_is_another_run(platform: Platform) -> None:
    """Scheduled runs of two DAGs have the same run id."""
    platform.store.begin_run(Origin("one", "scheduled", "t"))
    make(platform, "a", lines=["x"], origin=Origin("one", "scheduled", "t"))
    platform.store.begin_run(Origin("two", "scheduled", "t"))
    make(platform, "a", lines=["y"], origin=Origin("one", "scheduled", "t"))
    assert lines_of(platform, "a", Origin("two", "scheduled", "t")) == ["x"]


def test_a_read_of_an_older_generation_records_that_there_was_a_newer_one(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """In a DAG run that began before, and where the newest was let go; the newest is read without a word."""
    caplog.set_level(logging.INFO, "springline.store")
    make(platform, "a", lines=["old"])
    platform.store.begin_run(RUN)
    newest = make(platform, "a", lines=["new"])
    lines_of(platform, "a")
    lines_of(platform, "a", RUN)
    platform.maintenance.discard(newest.ref, "by the test")
    lines_of(platform, "a")
    assert [record.getMessage() for record in caplog.records] == [
        "a@1 is read, though a newer generation was committed: the DAG run run 1 started earlier or made it",
        "a@1 is read, though a newer generation was committed: that generation is no longer open",
    ]


# ---- operations


def waiting_chain(platform: Platform) -> list[Dataset]:
    """a (persisted) -> b -> c, both waiting."""
    return [
        make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH),
        make(platform, "b", "shout", ["a"]),
        make(platform, "c", "count", ["b"]),
    ]


def test_code_that_changes_while_its_output_waits_sends_the_data_first_in_the_queue(
    platform: Platform, runner: LinesRunner
) -> None:
    """What the old code wrote, and what derives from it, cannot be rebuilt: the bytes go, the new code is not run."""
    _, dataset, child = waiting_chain(platform)
    measured(platform, "shout", run=0.001, send=10.0)
    assert not platform.catalog.get(dataset.ref).expedited
    runner.add("shout", lambda sources, params: ["of the new code"], version="2")
    assert registered(platform, *runner.operations().values()) == [dataset.ref, child.ref]
    assert platform.catalog.history(dataset.ref)[-1].reason == "the code that made it no longer exists"
    runner.executed_operations.clear()
    methods = {outcome.ref: outcome.method for outcome in platform.persister.drain().outcomes}
    assert methods == {dataset.ref: TransferMethod.DATA, child.ref: TransferMethod.DATA}
    assert runner.executed_operations == []
    wipe_cache(platform)
    assert lines_of(platform, "b") == [f"LINE {i}" for i in range(100)]
    assert platform.catalog.get(child.ref).persisted


def test_code_that_comes_back_can_be_run_again(platform: Platform) -> None:
    """A version that was gone and is here again counts, with what was seen of it."""
    _, dataset, _ = waiting_chain(platform)
    assert dataset.call is not None
    platform.catalog.record_reproduction(dataset.call, same=True)
    registered(platform, Operation("shout", "2", idempotent=True))
    assert not platform.catalog.lineage_around([dataset.ref]).is_recomputable(dataset.ref)
    registered(platform, Operation("shout", "1", idempotent=True))
    lineage = platform.catalog.lineage_around([dataset.ref])
    operation = lineage.operation_of(dataset.ref)
    assert lineage.is_recomputable(dataset.ref) and operation is not None and operation.repeats == 1


def test_an_operation_that_another_process_registers_at_the_same_time_is_no_error(platform: Platform) -> None:
    """It is recorded once; on PostgreSQL two may find that it is missing."""

    def be_first(_: object, cursor: Any, statement: str, values: Any, *__: object) -> None:
        if statement.startswith("INSERT INTO operation"):
            cursor.execute(statement, values)

    event.listen(platform.catalog.engine, "before_cursor_execute", be_first)
    assert registered(platform, Operation("new", "1", idempotent=True)) == []
    assert [operation.name for operation in platform.catalog.operations()] == ["new"]


def test_an_operation_that_is_no_longer_declared_idempotent_sends_its_waiting_outputs_to_the_head(
    platform: Platform,
) -> None:
    """The same code, declared otherwise: what it wrote, and what was derived from it, may not be recomputable."""
    _, dataset, child = waiting_chain(platform)
    assert registered(platform, Operation("shout", "1", idempotent=False)) == [dataset.ref, child.ref]
    assert platform.catalog.get(dataset.ref).expedited and platform.catalog.get(child.ref).expedited
    assert not platform.catalog.lineage_around([dataset.ref]).is_recomputable(dataset.ref)


def test_an_operation_stays_nondeterministic_however_often_it_is_registered(
    platform: Platform, runner: LinesRunner
) -> None:
    """Only another version of the code may be believed again."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "liar", ["a"])
    assert dataset.call is not None
    assert platform.catalog.record_reproduction(dataset.call, same=False) == [dataset.ref]
    registered(platform, *runner.operations().values())
    lineage = platform.catalog.lineage_around([dataset.ref])
    assert "another digest" in lineage.recompute_obstacles(dataset.ref)[0]
    runner.add("liar", lambda sources, params: ["honest now"], version="2")
    newer = make(platform, "c", "liar", ["a"])
    assert platform.catalog.lineage_around([newer.ref]).is_recomputable(newer.ref)


def test_what_is_persisted_or_unwanted_does_not_go_to_the_head(platform: Platform) -> None:
    """Only what waits is in a queue."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    make(platform, "b", "shout", ["a"], strategy=Strategy.CACHE_THROUGH)
    make(platform, "c", "shout", ["a"], persist_requested=False)
    assert registered(platform, Operation("shout", "2", idempotent=True)) == []


# ---- lineage


def test_the_lineage_reaches_up_to_what_is_persisted_and_down_over_what_is_not(platform: Platform) -> None:
    """Just what a decision needs, however large the catalog."""
    refs = [make(platform, "d0", "load", strategy=Strategy.CACHE_THROUGH).ref]
    for i in range(1, 5):
        strategy = Strategy.CACHE_THROUGH if i == 1 else Strategy.ASYNC_STORE
        refs.append(make(platform, f"d{i}", "shout", [f"d{i - 1}"], strategy=strategy).ref)
    around = platform.catalog.lineage_around([refs[3]])
    assert set(around.datasets) == set(refs[1:])
    assert set(platform.catalog.lineage_around([refs[3]], down=False).datasets) == set(refs[1:4])
    assert refs[0] in platform.catalog.lineage_around([refs[1]], down=False).datasets
    assert around.is_recomputable(refs[4])


def test_the_lineage_of_the_cache_has_the_sources_of_what_left_it(platform: Platform) -> None:
    """An eviction has to know what an evicted one leans on."""
    _, middle, last = waiting_chain(platform)
    let_go(platform, last.ref)
    lineage = platform.catalog.lineage_of_cache()
    assert {last.ref, middle.ref, Ref("a", 1)} <= set(lineage.datasets)


# ---- history


def test_measurements_become_costs(platform: Platform) -> None:
    """By operation and side, the link by itself."""
    _, dataset, _ = waiting_chain(platform)
    measured(platform, "shout", run=2.0, send=4.0)
    costs = platform.catalog.load_cost_model(platform.catalog.lineage_around([dataset.ref]))
    below, sent = costs.predict_run("shout", ExecutionSide.STORAGE, 1000), costs.predict_transfer(1000)
    assert below is not None and sent is not None
    assert below.seconds == pytest.approx(2) and sent.seconds == pytest.approx(4, rel=0.2)


def test_the_bytes_that_open_writes_are_expected_to_need_count_as_used(platform: Platform) -> None:
    """So that two writers do not count on the same room."""
    platform.catalog.begin("a", strategy=Strategy.ASYNC_STORE, expected_bytes=1000)
    assert platform.catalog.cache_used() == 1000
    platform.catalog.change(Ref("a", 1), Event.CACHED, bytes=600)
    assert platform.catalog.cache_used() == 600
    platform.catalog.change(Ref("a", 1), Event.ABANDONED)
    assert platform.catalog.cache_used() == 0
    assert platform.catalog.get(Ref("a", 1)).under is UnderStoreState.NONE
