"""Writing while something goes wrong: what is committed stays, what is not leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from springline.persistence.engine.copier import CorruptCacheError
from springline.persistence.errors import CorruptCopyError, PersistenceError, StorageUnavailableError
from springline.persistence.model.dataset import CacheState, Call, OperationResult, Origin, Phase, Ref, Strategy
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of, write_lines
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import once, raise_, stage
from tests.support.datasets.states import copies_in, damage, events_of, expire_leases, wipe_cache

LINES = [f"line {i}" for i in range(100)]
RUN = Origin("etl", "run 1", "task")


def load(platform: Platform, path: str = "a", *, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Write lines to `path` by hand, something else happening before the write says that it is done."""
    with platform.store.write(path, strategy=Strategy.CACHE_THROUGH) as writing:
        operation_result = platform.runner.run(Call("load", "1"), [], writing.uri)
        meanwhile()
        writing.mark_complete(operation_result)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(StorageUnavailableError("away"), nullcontext()), (KeyboardInterrupt(), pytest.raises(KeyboardInterrupt))],
)
def test_a_fault_after_the_commit_takes_nothing_back(
    platform: Platform, error: BaseException, outcome: AbstractContextManager[object]
) -> None:
    """Making room comes after; its failure is not the write's, and what else is raised then reaches the caller."""
    platform.replacement.ensure_free_bytes = raise_(error)  # type: ignore[method-assign]
    platform.store._must_bypass_cache = lambda expected: False  # type: ignore[method-assign]
    with outcome:
        make(platform, "a", "load")
    assert lines_of(platform, "a") == LINES


def test_a_generation_is_not_left_open_when_nothing_could_be_written(platform: Platform) -> None:
    """The write ends before it began."""
    platform.replacement.ensure_free_bytes = raise_(ZeroDivisionError())  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        make(platform, "a", "load")
    assert platform.catalog.find(path="a")[0].phase is Phase.ABANDONED


@pytest.mark.parametrize(
    ("left", "is_complete", "message"),
    [
        ((), True, "a@1: nothing was written"),
        (("_springline.json",), True, "a@1: the name _springline.json is that"),
        (("sub/_springline.json",), True, "a@1: the name sub/_springline.json is that"),
        (("part.txt",), False, r"without mark_complete\(\)"),
    ],
)
def test_a_write_of_no_files_or_without_an_end_is_abandoned(
    platform: Platform, left: tuple[str, ...], message: str, *, is_complete: bool
) -> None:
    """An empty result is an empty file; no file is a writer that wrote elsewhere, and one that stopped wrote a part."""
    with (
        pytest.raises(PersistenceError, match=message),
        platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing,
    ):
        for name in left:
            file = Path(writing.uri.removeprefix("file://")) / name
            file.parent.mkdir(parents=True)
            file.write_text("")
        if is_complete:
            writing.mark_complete(OperationResult(0, "", 0.0))
    assert platform.catalog.get(writing.ref).phase is Phase.ABANDONED
    assert copies_in(platform.cache) == []


def test_an_empty_dataset_is_a_dataset(platform: Platform) -> None:
    """A file of no bytes is written, persisted, evicted, fetched and recomputed like any other."""
    make(platform, "a", lines=[], strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "shout", ["a"], strategy=Strategy.CACHE_THROUGH)
    assert (dataset.bytes, dataset.rows) == (0, 0)
    wipe_cache(platform)
    assert lines_of(platform, "b") == []
    platform.under.delete(dataset.under_location)
    wipe_cache(platform)
    assert lines_of(platform, "b") == []
    assert platform.maintenance.scan(deep=True).lost == []


def test_the_cache_going_during_a_write_fails_it_clearly(platform: Platform) -> None:
    """The next try finds everything as it was."""
    with pytest.raises(PersistenceError, match="nothing was written"):
        load(platform, meanwhile=lambda: wipe_cache(platform))
    assert platform.catalog.find(path="a")[0].phase is Phase.ABANDONED
    load(platform)
    assert lines_of(platform, "a") == LINES


# ---- synchronous writes


@pytest.mark.parametrize("point", ["manifest", "publish"])
def test_a_synchronous_copy_damaged_or_taken_over_on_its_way_is_sent_again(
    open_at: Callable[..., Platform], point: str
) -> None:
    """While the patience lasts: nobody else sends what is not committed, even if somebody takes a silent lease back."""
    platform, other = open_at(sync_timeout=60), open_at()
    _, under, _ = stage(platform)

    def take_lease_back() -> None:
        expire_leases(other)
        assert other.persister.step() is None

    faults = {"manifest": lambda: damage(under.inner, *copies_in(under.inner)), "publish": take_lease_back}
    under.at = once(point, faults[point])
    load(platform)
    record = platform.catalog.resolve("a")
    assert record.persisted and record.attempts == 2
    assert copies_in(platform.under) == [record.under_location]


def test_a_synchronous_write_waits_for_the_under_store(open_at: Callable[..., Platform]) -> None:
    """It goes on trying, and commits when the copy is there."""
    platform = open_at(sync_timeout=60, retry_seconds=1)
    root = platform.under.root  # type: ignore[attr-defined]
    moved_root = root.rename(root.with_name("away"))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            moved_root.rename(root)

    platform.store.sleep = sleep
    load(platform)
    assert slept == [1, 1, 1] and platform.catalog.resolve("a").persisted


def test_a_synchronous_write_whose_patience_ends_is_abandoned(platform: Platform) -> None:
    """Nothing is committed that is not persisted."""
    root = platform.under.root  # type: ignore[attr-defined]
    root.rename(root.with_name("away"))
    with pytest.raises(StorageUnavailableError):
        load(platform)
    (dataset,) = platform.catalog.find(path="a")
    assert dataset.phase is Phase.ABANDONED and "StorageUnavailableError" in dataset.error
    assert copies_in(platform.cache) == []


def test_cached_bytes_damaged_before_they_were_sent_are_not_committed(open_at: Callable[..., Platform]) -> None:
    """Sending them again would not help."""
    platform = open_at(sync_timeout=60)
    cache, _, _ = stage(platform)
    cache.at = once("chunks", lambda: damage(cache.inner, "a/@1"))
    with pytest.raises(CorruptCacheError):
        load(platform)
    assert platform.catalog.find(path="a")[0].phase is Phase.ABANDONED
    assert isinstance(CorruptCacheError(""), CorruptCopyError)


@pytest.mark.parametrize("point", ["create", "manifest", "publish", "publish done"])
def test_a_writer_killed_while_it_persists_leaves_nothing_for_the_next_try(platform: Platform, point: str) -> None:
    """Wherever it died, the second try of the task clears up and goes through."""

    class Killed(BaseException):
        pass

    _, under, _ = stage(platform)
    with pytest.MonkeyPatch.context() as dead:  # a dead writer clears nothing up
        dead.setattr(platform.store, "_abandon", lambda *_: None)
        dead.setattr(under.inner, "delete", lambda location: None)
        dead.setattr(platform.claims, "release", lambda *_, **how: None)
        under.at = once(point, raise_(Killed()))
        with pytest.raises(Killed):
            make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH, origin=RUN)
    assert copies_in(platform.under) != [] or point == "create"
    second = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH, origin=RUN)
    assert second.ref == Ref("a", 2) and platform.catalog.get(Ref("a", 1)).phase is Phase.ABANDONED
    assert copies_in(platform.under) == [second.under_location]
    assert copies_in(platform.cache) == [second.cache_location]


# ---- straight down


def too_large(open_at: Callable[..., Platform]) -> Platform:
    """A platform whose cache is known to be too small for what `shout` makes of `a`."""
    roomy = open_at()
    make(roomy, "a", "load", strategy=Strategy.CACHE_THROUGH)
    make(roomy, "b", "shout", ["a"])
    roomy.persister.drain()
    return open_at(cache_capacity=100)


@pytest.mark.parametrize("point", ["manifest", "publish", "publish done"])
def test_a_write_straight_down_that_fails_leaves_nothing(open_at: Callable[..., Platform], point: str) -> None:
    """Neither a half copy nor a complete one that is unknown."""
    platform = too_large(open_at)
    before = copies_in(platform.under)
    _, under, _ = stage(platform)
    under.at = once(point, raise_(StorageUnavailableError("away")), where="b/")
    with pytest.raises(StorageUnavailableError):
        make(platform, "b", "shout", ["a"])
    assert platform.catalog.get(Ref("b", 2)).phase is Phase.ABANDONED
    assert copies_in(platform.under) == before
    dataset = make(platform, "b", "shout", ["a"])
    assert dataset.persisted and len(lines_of(platform, "b")) == 100


# ---- async writes beside an under-store that is away


def test_an_asynchronous_write_does_not_need_the_under_store(platform: Platform) -> None:
    """Not even to clear up after a try that had failed."""
    with pytest.raises(ZeroDivisionError), platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        write_lines(writing.uri, ["x"])
        raise ZeroDivisionError
    root = platform.under.root  # type: ignore[attr-defined]
    moved_root = root.rename(root.with_name("away"))
    make(platform, "a", "load")
    assert lines_of(platform, "a") == LINES
    moved_root.rename(root)
    assert platform.persister.drain().remaining == 0


# ---- retries


def test_a_retry_adopts_what_its_failed_try_had_committed_unless_it_is_lost_for_good(platform: Platform) -> None:
    """What the first try of the same task in the same run had committed; what is gone it makes again."""
    first = make(platform, "a", "load", origin=RUN)
    second = make(platform, "b", "shout", ["a"], origin=RUN)
    assert first.call is not None and second.call is not None
    platform.cache.delete(second.cache_location)
    adoptable = platform.store.committed_by_earlier_try
    dataset = adoptable("b", call=second.call, sources=second.sources, origin=RUN)
    assert dataset is not None and dataset.ref == second.ref  # its source is there: it can be recomputed
    other = Origin("etl", "run 2", "task")
    assert adoptable("b", call=second.call, sources=second.sources, origin=other) is None
    wipe_cache(platform)
    assert adoptable("b", call=second.call, sources=second.sources, origin=RUN) is None
    assert adoptable("a", call=first.call, sources=(), origin=RUN) is None
    assert platform.catalog.get(first.ref).cache is CacheState.LOST
    assert Event.LOST in events_of(platform, first.ref)
    successor = make(platform, "a", "load", origin=RUN)
    assert lines_of(platform, "a", RUN) == LINES and successor.ref == Ref("a", 2)
