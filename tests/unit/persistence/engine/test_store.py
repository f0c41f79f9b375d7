"""Writing and reading under the four strategies."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from springline.persistence.errors import InvalidPathError, IrrecoverableError, StorageFullError, UnknownDatasetError
from springline.persistence.model.dataset import CacheState, Origin, Phase, Strategy, TransferMethod, UnderStoreState
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, lines_of
from springline.testing.lines import make_dataset as make


def test_async_store_commits_before_anything_is_persisted(platform: Platform) -> None:
    """Async-Store answers at memory speed; the copy is made later."""
    dataset = make(platform, "a", "load")
    assert (dataset.phase, dataset.cache, dataset.under) == (Phase.COMMITTED, CacheState.PRESENT, UnderStoreState.NONE)
    assert platform.claims.depth() == 1


def test_cache_through_commits_only_what_is_persisted(platform: Platform) -> None:
    """CacheThrough waits for the under-store."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    assert dataset.persisted and dataset.method is TransferMethod.DATA
    assert platform.under.exists(dataset.under_location)


def test_async_and_sync_waits_only_for_what_cannot_be_made_again(platform: Platform) -> None:
    """Async&Sync writes the load synchronously, its idempotent child behind the job's back."""
    loaded = make(platform, "a", "load", strategy=Strategy.ASYNC_AND_SYNC)
    derived_dataset = make(platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_AND_SYNC)
    salted = make(platform, "c", "salt", ["b"], strategy=Strategy.ASYNC_AND_SYNC)
    assert loaded.persisted and not derived_dataset.persisted and salted.persisted


def test_cache_only_never_enters_the_queue(platform: Platform) -> None:
    """CacheOnly promises nothing and sends nothing."""
    make(platform, "a", "load", strategy=Strategy.CACHE_ONLY)
    assert platform.claims.depth() == 0


def test_a_dataset_without_an_operation_is_persisted_at_once_under_async_and_sync(platform: Platform) -> None:
    """No operation recorded means that it cannot be made again."""
    assert make(platform, "a", lines=["x"], strategy=Strategy.ASYNC_AND_SYNC).persisted


def test_an_error_in_the_write_abandons_the_generation(platform: Platform) -> None:
    """Readers never see a write that failed, and nothing of it stays in the cache."""
    with pytest.raises(ZeroDivisionError), platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        1 / 0  # noqa: B018
    assert platform.catalog.get(writing.ref).phase is Phase.ABANDONED
    with pytest.raises(UnknownDatasetError), platform.store.read("a"):
        pass


def test_a_new_generation_supersedes_the_older_one(platform: Platform) -> None:
    """Writing a path again makes a new generation; readers see the newest."""
    first = make(platform, "a", lines=["old"])
    make(platform, "a", lines=["new"])
    assert lines_of(platform, "a") == ["new"]
    assert platform.catalog.get(first.ref).superseded


def test_a_dag_run_sees_what_was_committed_when_it_began(platform: Platform) -> None:
    """A backfill beside a run changes nothing under its feet."""
    make(platform, "a", lines=["old"])
    run = Origin("etl", "run 1", "t")
    platform.store.begin_run(run)
    make(platform, "a", lines=["backfilled"], origin=Origin("etl", "backfill", "t"))
    assert lines_of(platform, "a", run) == ["old"]
    assert lines_of(platform, "a") == ["backfilled"]


def test_a_dag_run_sees_its_own_generation_first(platform: Platform) -> None:
    """What a run made itself it reads, whoever wrote the path since."""
    run = Origin("etl", "run 1", "t")
    platform.store.begin_run(run)
    make(platform, "a", lines=["mine"], origin=run)
    make(platform, "a", lines=["theirs"], origin=Origin("etl", "run 2", "t"))
    assert lines_of(platform, "a", run) == ["mine"]


def test_a_retry_adopts_what_its_failed_try_had_committed(platform: Platform) -> None:
    """The second try of a task finds the first one's generation."""
    run = Origin("etl", "run 1", "t")
    make(platform, "a", lines=["x"])
    first = make(platform, "b", "shout", ["a"], origin=run)
    assert first.call is not None
    dataset = platform.store.committed_by_earlier_try("b", call=first.call, sources=first.sources, origin=run)
    assert dataset is not None and dataset.ref == first.ref
    other = Origin("etl", "run 2", "t")
    assert platform.store.committed_by_earlier_try("b", call=first.call, sources=first.sources, origin=other) is None


def test_a_second_try_abandons_what_the_first_left_open(platform: Platform) -> None:
    """A try that died while writing leaves an open generation; the next try clears it away."""
    run = Origin("etl", "run 1", "t")
    dead = platform.catalog.begin("a", strategy=Strategy.ASYNC_STORE, origin=run)
    make(platform, "a", lines=["x"], origin=run)
    assert platform.catalog.get(dead.ref).phase is Phase.ABANDONED


def test_reading_a_lost_dataset_runs_its_chain_again(platform: Platform, runner: LinesRunner) -> None:
    """What was lost comes back by its operations, in order, without anyone asking."""
    make(platform, "a", "load", strategy=Strategy.ASYNC_AND_SYNC)
    make(platform, "b", "shout", ["a"])
    make(platform, "c", "count", ["b"])
    shutil.rmtree(platform.cache.root)  # type: ignore[attr-defined]
    runner.executed_operations.clear()
    assert lines_of(platform, "c") == ["100"]
    assert runner.executed_operations == ["shout", "count"]


def test_reading_what_nothing_can_bring_back_names_it(platform: Platform) -> None:
    """The error names the dataset and says why."""
    make(platform, "a", "load")
    shutil.rmtree(platform.cache.root)  # type: ignore[attr-defined]
    with pytest.raises(IrrecoverableError, match=r"a@1.*load.*not idempotent"), platform.store.read("a"):
        pass


def test_a_full_under_store_fails_the_synchronous_write_and_says_so(open_at: Callable[..., Platform]) -> None:
    """A synchronous write whose copy does not fit is not committed."""
    platform = open_at(under_capacity=10)
    with pytest.raises(StorageFullError):
        make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    assert platform.catalog.find(path="a")[0].phase is Phase.ABANDONED


def test_a_dataset_larger_than_the_cache_ends_up_in_the_under_store_alone(open_at: Callable[..., Platform]) -> None:
    """A very large file goes straight down, and is read from there."""
    platform = open_at(cache_capacity=50)
    dataset = make(platform, "a", "load")
    assert dataset.persisted and dataset.cache is CacheState.EVICTED
    assert len(lines_of(platform, "a")) == 100


def test_a_write_that_is_expected_not_to_fit_never_touches_the_cache(open_at: Callable[..., Platform]) -> None:
    """Once an operation's growth is known, its next too large output is written below from the start."""
    roomy = open_at()
    make(roomy, "a", "load")
    make(roomy, "b", "shout", ["a"])
    roomy.persister.drain()
    tight = open_at(cache_capacity=100)
    dataset = make(tight, "b", "shout", ["a"])
    assert dataset.persisted and dataset.cache is CacheState.EVICTED
    assert [event.event for event in tight.catalog.history(dataset.ref)][:2] == ["opened", "written_to_under_store"]
    assert dataset.checksum == dataset.under_checksum != ""
    assert lines_of(tight, "b") == [f"LINE {i}" for i in range(100)]


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "", "a//b", "a/_b", "a/.b", "a@1", "a:b", "a*", "x" * 300])
def test_a_path_that_leaves_its_root_is_refused(platform: Platform, path: str) -> None:
    """Nothing is written for a path that is not a place inside the root."""
    with pytest.raises(InvalidPathError), platform.store.write(path, strategy=Strategy.ASYNC_STORE):
        pass


def test_a_name_with_spaces_and_other_scripts_works(platform: Platform) -> None:
    """Names are people's own: spaces and any script."""
    make(platform, "etl/Zürich Köln/航班 один", lines=["x"], strategy=Strategy.CACHE_THROUGH)
    assert lines_of(platform, "etl/Zürich Köln/航班 один") == ["x"]


def test_a_write_that_a_gate_stopped_keeps_the_gates_report(platform: Platform) -> None:
    """The report is what a person looks for after the stop; it stays with the abandoned generation."""

    class StopError(Exception):
        report = {"rule": "broken"}  # noqa: RUF012

    with pytest.raises(StopError), platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        raise StopError
    assert platform.catalog.get(writing.ref).report == {"rule": "broken"}
