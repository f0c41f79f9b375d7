"""Bringing generations back: fetched or run again, one at a time or two at once, with surprises on the way."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from springline.persistence.errors import (
    CorruptCopyError,
    IrrecoverableError,
    MissingDataError,
    OperationError,
    PersistenceError,
    RunnerUnavailableError,
    StorageFullError,
    UnknownDatasetError,
)
from springline.persistence.model.dataset import CacheState, Call, Dataset, Ref, Strategy
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, lines_of, read_lines
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import once, raise_, stage
from tests.support.datasets.states import copies_in, damage, events_of, expire_leases, let_go, lose_cache, wipe_cache

SHOUTED = [f"LINE {i}" for i in range(100)]


def chain(platform: Platform, length: int, *, strategy: Strategy = Strategy.ASYNC_STORE) -> list[Dataset]:
    """d0 (persisted) -> d1 -> … each made from the one before."""
    datasets = [make(platform, "d0", "load", strategy=Strategy.CACHE_THROUGH)]
    for i in range(1, length):
        datasets.append(make(platform, f"d{i}", "shout", [f"d{i - 1}"], strategy=strategy))
    return datasets


# ---- fetching


def test_a_damaged_copy_below_is_noticed_when_it_is_fetched(platform: Platform, runner: LinesRunner) -> None:
    """It counts as lost there, and the generation is recomputed."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "shout", ["a"], strategy=Strategy.CACHE_THROUGH)
    let_go(platform, dataset.ref)
    damage(platform.under, dataset.under_location)
    runner.executed_operations.clear()
    assert lines_of(platform, "b") == SHOUTED
    assert runner.executed_operations == ["shout"]
    assert events_of(platform, dataset.ref)[-2:] == [Event.UNDER_STORE_LOST, Event.RESTORED]
    assert platform.claims.depth() == 1  # it wants a good copy below again


def test_bytes_damaged_on_the_way_up_are_fetched_again(platform: Platform) -> None:
    """What lies below was not at fault."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    let_go(platform, dataset.ref)
    cache, _, _ = stage(platform)
    cache.at = once("manifest", lambda: damage(cache.inner, copies_in(cache.inner)[0]))
    assert lines_of(platform, "a") == [f"line {i}" for i in range(100)]
    assert Event.UNDER_STORE_LOST not in events_of(platform, dataset.ref)


@pytest.mark.parametrize("is_disk_full", [False, True])
def test_what_does_not_fit_is_read_where_it_is(open_at: Callable[..., Platform], *, is_disk_full: bool) -> None:
    """A persisted dataset larger than the cache; its disk may hold less than its capacity, or somebody else's files."""
    dataset = make(open_at(), "a", "load", strategy=Strategy.CACHE_THROUGH)
    platform = open_at() if is_disk_full else open_at(cache_capacity=10)
    let_go(platform, dataset.ref)
    cache, _, _ = stage(platform)
    cache.at = once("create", raise_(StorageFullError("no space left")))
    with platform.store.read("a") as reading:
        assert "/under/" in reading.uri and len(read_lines(reading.uri)) == 100
    assert copies_in(platform.cache) == [] and not platform.catalog.get(dataset.ref).in_cache


# ---- running again


@pytest.mark.parametrize("strategy", [Strategy.ASYNC_STORE, Strategy.CACHE_ONLY])
def test_a_chain_is_run_again_in_order(
    open_at: Callable[..., Platform], runner: LinesRunner, strategy: Strategy
) -> None:
    """The catalog need not know yet what was lost: every source is looked for before anything is run.

    In a cache that holds one of it, making room for the next step takes no source away, though cache_only permits it.
    """
    platform = open_at()
    datasets = chain(platform, 12, strategy=strategy)
    wipe_cache(platform)
    if strategy is Strategy.CACHE_ONLY:
        platform = open_at(cache_capacity=datasets[1].bytes)
    runner.executed_operations.clear()
    assert lines_of(platform, "d11") == SHOUTED
    assert runner.executed_operations == ["shout"] * 11


def test_a_source_is_not_let_go_while_an_operation_reads_it(open_at: Callable[..., Platform]) -> None:
    """Who makes room beside a recovery leaves what it reads, persisted or not."""
    platform, evictor = open_at(), open_at()
    source, lost = chain(platform, 2)
    platform.cache.delete(lost.cache_location)
    _, _, staged = stage(platform)
    planned: list[tuple] = []
    staged.at = once("run", lambda: planned.append(evictor.replacement.plan(10**9).victims))
    assert lines_of(platform, "d1") == SHOUTED
    assert planned == [()]
    assert source.ref in [victim.ref for victim in evictor.replacement.plan(10**9).victims]


def test_reading_by_a_recovery_does_not_count_as_reading(platform: Platform) -> None:
    """How often people and jobs read a dataset is what its priority goes by."""
    datasets = chain(platform, 3)
    wipe_cache(platform)
    before = platform.catalog.get(datasets[1].ref).reads
    lines_of(platform, "d2")
    assert platform.catalog.get(datasets[1].ref).reads == before


def test_many_liars_are_found_nondeterministic_in_one_recovery(platform: Platform, runner: LinesRunner) -> None:
    """Each costs one plan, its output is irrecoverable, with the reason, and the honest one is brought back."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    for i in range(8):
        runner.add(f"liar{i}", lambda sources, params: [str(random.random())])
    lies = [make(platform, f"b{i}", f"liar{i}", ["a"]).ref for i in range(8)]
    honest = make(platform, "c", "shout", ["a"]).ref
    lose_cache(platform)
    report = platform.restorer.restore([*lies, honest])
    assert set(report.irrecoverable) == set(lies)
    assert all("returned another digest" in causes[0] for causes in report.irrecoverable.values())
    assert {operation.name for operation in platform.catalog.operations() if operation.nondeterministic} == {
        f"liar{i}" for i in range(8)
    }
    assert platform.catalog.get(honest).in_cache and platform.catalog.get(lies[0]).cache is CacheState.LOST
    assert [location for location in copies_in(platform.cache) if location.startswith("b")] == []


def test_the_whole_cache_going_during_a_recovery_is_survived(platform: Platform) -> None:
    """What was restored a moment ago is lost again, and is made once more."""
    datasets = chain(platform, 4)
    wipe_cache(platform)
    cache, _, staged = stage(platform)
    for point, stage_of in (("run done", staged), ("manifest", cache)):
        stage_of.at = once(point, lambda: wipe_cache(platform))
        assert lines_of(platform, datasets[-1].ref.path) == SHOUTED, point
        wipe_cache(platform)


def test_a_fault_that_never_ends_is_raised(platform: Platform) -> None:
    """After a few surprises the caller gets the error."""
    chain(platform, 2)
    platform.cache.delete("d1/@1")
    _, _, staged = stage(platform)
    staged.at = lambda point, name: wipe_cache(platform) if point == "run done" else None
    with pytest.raises((MissingDataError, CorruptCopyError)), platform.store.read("d1"):
        pass


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (OperationError("no such column"), "d1@1 could not be recomputed: no such column"),
        (StorageFullError("no space left"), "no space left"),
    ],
)
def test_a_step_that_fails_keeps_back_only_what_is_made_from_it(
    platform: Platform, failure: PersistenceError, message: str
) -> None:
    """All else is brought back in the same recovery; the next one has the rest."""
    _, first, second = (dataset.ref for dataset in chain(platform, 3))
    others = [make(platform, path, "shout", ["d0"]).ref for path in ("c", "e")]
    lose_cache(platform)
    _, _, staged = stage(platform)
    staged.at = once("run", raise_(failure))  # d1, the first to be run
    report = platform.restorer.restore([second, *others])
    assert list(report.failed) == [first, second]
    assert str(report.failed[first]) == message and "needs d1@1" in str(report.failed[second])
    assert {step.ref for step in report.steps} == set(others)
    with pytest.raises(type(failure), match=message):
        report.require_all()
    assert platform.restorer.restore([second]).failed == {} and platform.catalog.get(second).in_cache


def test_what_runs_operations_being_away_ends_a_recovery(platform: Platform) -> None:
    """It is waited for once, not once a step."""
    chain(platform, 2)
    other = make(platform, "c", "shout", ["d0"]).ref
    lose_cache(platform)
    _, _, staged = stage(platform)
    staged.at = once("run", raise_(RunnerUnavailableError("no Spark here")))
    with pytest.raises(RunnerUnavailableError, match="could not be recomputed: no Spark here"):
        platform.restorer.restore([Ref("d1", 1), other])


def test_demanding_what_is_gone_names_every_one(platform: Platform) -> None:
    """All targets and all reasons are in one error."""
    lost = [make(platform, path, "load").ref for path in ("a", "b")]
    lose_cache(platform)
    with pytest.raises(IrrecoverableError, match=r"a@1 \(.*not idempotent.*b@1 \(.*not idempotent"):
        platform.restorer.ensure_cached(lost)


def test_bytes_that_are_on_their_way_are_waited_for(open_at: Callable[..., Platform]) -> None:
    """A cache that is lost while its only copy arrives below costs its reader time, not the data."""
    first, second = open_at(), open_at()
    expected_lines = lines_of(first, make(first, "a", "load").ref.path)
    waited, read = threading.Event(), []
    second.restorer.sleep = lambda seconds: waited.set()
    reader = threading.Thread(target=lambda: read.append(lines_of(second, "a")))

    def lose_the_cache() -> None:
        wipe_cache(first)
        reader.start()
        assert waited.wait(30)

    stage(first, once("publish", lose_the_cache, where="a/"))
    first.persister.drain()
    reader.join(30)
    assert read == [expected_lines]


def test_a_sender_that_fell_silent_is_not_waited_for(open_at: Callable[..., Platform]) -> None:
    """Once its lease has run out, what it was sending is lost."""
    first, second = open_at(), open_at()
    make(first, "a", "load")

    def lose_the_cache() -> None:
        wipe_cache(first)
        expire_leases(first)
        with pytest.raises(IrrecoverableError, match="a@1 is lost"), second.store.read("a"):
            pass

    stage(first, once("chunks", lose_the_cache))
    first.persister.step()


# ---- several at once


def test_two_that_bring_the_same_back_at_once_leave_one_whole_copy(open_at: Callable[..., Platform]) -> None:
    """The first one's copy counts; the second throws its own away and reads the first's."""
    first, second = open_at(), open_at()
    chain(first, 2)
    wipe_cache(first)
    _, _, staged = stage(second)
    inner: list[list[str]] = []
    staged.at = once("run done", lambda: inner.append(lines_of(first, "d1")))
    assert lines_of(second, "d1") == SHOUTED == inner[0]
    record = first.catalog.get(Ref("d1", 1))
    assert first.cache.manifest(record.cache_location).checksum == record.checksum
    assert [location for location in copies_in(first.cache) if "d1" in location] == [record.cache_location]
    assert events_of(first, record.ref).count(Event.RESTORED) == 1


def test_a_reader_that_finds_its_generation_just_retired_reads_the_newer_one(open_at: Callable[..., Platform]) -> None:
    """It asked for the newest, and gets it."""
    reader, other = open_at(), open_at()
    make(reader, "a", lines=["old"])
    resolve = reader.catalog.resolve

    def late(*args: object) -> Dataset:
        dataset = resolve(*args)  # type: ignore[arg-type]
        if dataset.ref.generation == 1:
            make(other, "a", lines=["new"])
            assert other.maintenance.retire() == [dataset.ref]
        return dataset

    reader.catalog.resolve = late  # type: ignore[method-assign, assignment]
    assert lines_of(reader, "a") == ["new"]


def test_what_is_not_committed_cannot_be_read(platform: Platform) -> None:
    """Retired, abandoned or open, it is refused by its number, and a write under way is not disturbed."""
    make(platform, "b", "load", strategy=Strategy.CACHE_THROUGH)
    for _ in range(2):
        make(platform, "a", "shout", ["b"])
    assert platform.maintenance.retire() == [Ref("a", 1)]
    with pytest.raises(ZeroDivisionError), platform.store.write("a", strategy=Strategy.ASYNC_STORE) as failing:
        raise ZeroDivisionError
    call = Call("shout", "1")
    with platform.store.write("a", call=call, sources=[Ref("b", 1)], strategy=Strategy.ASYNC_STORE) as writing:
        operation_result = platform.runner.run(call, [platform.cache.uri("b/@1")], writing.uri)
        for number in (1, failing.ref.generation, writing.ref.generation):
            with (
                pytest.raises(UnknownDatasetError, match="cannot be read"),
                platform.store.read("a", generation=number),
            ):
                pass
        writing.mark_complete(operation_result)
    assert lines_of(platform, "a") == SHOUTED
