"""The cache, the under-store, the catalog or a landing file fail while a workflow runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.errors import IrrecoverableError, PersistenceError
from springline.persistence.model.dataset import CacheState, Origin, Phase, Ref, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, lines_of
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import Staged, stage
from tests.support.datasets.states import copies_in, end_pauses, wipe_cache
from tests.support.datasets.workflow import (
    STEPS,
    digests_below,
    digests_now,
    digests_without_faults,
    land,
    only_whole_copies_are_left,
    run_workflow,
    workflow_runner,
)

WRITES = [path for _, path, _ in STEPS]


class Fault:
    """Something that happens at the n-th point that a platform's stores and runner reach."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left = number
        self.happened = False
        self._act = act

    def __call__(self, point: str, location: str) -> None:
        self.left -= 1
        if self.left < 0 and not self.happened:
            self.happened = True
            self._act()


@pytest.fixture
def runner() -> LinesRunner:
    """The operations of the workflow."""
    return workflow_runner()


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """The landing file."""
    return land(tmp_path)


def away(platform: Platform) -> Callable[[], object]:
    """Take the under-store away; call the result to bring it back."""
    root = platform.under.root  # type: ignore[attr-defined]
    renamed_root = root.rename(root.with_name("away"))
    root.write_text("no folder: whatever is tried here is refused")

    def back() -> None:
        root.unlink()
        renamed_root.rename(root)

    return back


# ---- the cache


@pytest.mark.parametrize("moment", range(0, 60, 3))
def test_under_async_and_sync_the_cache_may_go_at_any_moment(
    open_at: Callable[..., Platform], landing: Path, moment: int
) -> None:
    """The run ends right, whatever the moment: each task that fails is tried once more, and nothing is lost."""
    platform = open_at()
    fault = Fault(moment, lambda: wipe_cache(platform))
    stage(platform, fault)
    datasets = run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC)
    landing.unlink()
    assert {path: dataset.digest for path, dataset in datasets.items()} == digests_without_faults()
    assert digests_now(platform) == digests_without_faults()
    assert platform.persister.drain().remaining == 0
    wipe_cache(platform)
    assert digests_below(platform) == digests_without_faults() == digests_now(platform)
    assert fault.happened


def test_under_async_store_what_goes_with_the_cache_is_named(open_at: Callable[..., Platform], landing: Path) -> None:
    """What had been persisted is there, what can be made again is made; what cannot be is named, with the reason."""
    platform = open_at()
    run_workflow(platform, landing, strategy=Strategy.ASYNC_STORE)
    wipe_cache(platform)
    platform.maintenance.scan()
    report = platform.restorer.restore([d.ref for d in platform.maintenance.find_lost()])
    assert {ref.path for ref in report.irrecoverable} == set(WRITES)
    for path in WRITES:
        with pytest.raises(IrrecoverableError, match=rf"{path}@1.*landing.*not idempotent"):
            lines_of(platform, path)
    second_run = run_workflow(platform, landing, strategy=Strategy.ASYNC_STORE, origin=Origin("etl", "run 2"))
    assert {dataset.ref.generation for dataset in second_run.values()} == {2}
    assert digests_now(platform) == digests_without_faults()


# ---- the under-store


def test_a_process_that_starts_while_the_under_store_is_away_works_on(open_at: Callable[..., Platform]) -> None:
    """It opens, writes to the cache, says what the transfer waits for, and sends once it is back."""
    first = open_at()
    back = away(first)
    platform = open_at(retry_seconds=0)
    make(platform, "a", lines=["one"])
    (outcome,) = platform.persister.drain().outcomes[:1]
    assert "is its disk mounted" in outcome.error
    back()
    assert platform.persister.drain().remaining == 0


def test_an_under_store_that_refuses_for_a_while_delays_only_what_must_be_synchronous(
    open_at: Callable[..., Platform], landing: Path
) -> None:
    """The load waits until it is back; what follows never does."""
    platform = open_at(sync_timeout=60, retry_seconds=1)
    back = away(platform)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            back()

    platform.store.sleep = sleep
    created = platform.catalog.commit
    committed: list[str] = []

    def commit(ref: Ref, **also: object):  # type: ignore[no-untyped-def]
        if not committed:
            assert len(waited) == 3
            platform.under.root.rename(platform.under.root.with_name("away"))  # type: ignore[attr-defined]
        committed.append(ref.path)
        return created(ref, **also)

    platform.catalog.commit = commit  # type: ignore[method-assign]
    run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC)
    assert committed == WRITES and len(waited) == 3
    platform.persister.retry_seconds = 0
    assert platform.persister.drain().remaining == 3
    root = platform.under.root  # type: ignore[attr-defined]
    root.with_name("away").rename(root)
    assert platform.persister.drain().remaining == 0
    wipe_cache(platform)
    assert digests_now(platform) == digests_without_faults()


def test_a_full_under_store_stops_no_job_and_is_caught_up_with(open_at: Callable[..., Platform], landing: Path) -> None:
    """What does not fit waits in the cache, named, until there is room."""
    platform = open_at(under_capacity=1000, retry_seconds=1000)
    run_workflow(platform, landing, strategy=Strategy.ASYNC_STORE)
    assert digests_now(platform) == digests_without_faults()
    summary = platform.persister.drain()
    waiting = [d for d in platform.catalog.find() if not d.persisted]
    assert summary.remaining == len(waiting) >= 3
    assert {d.cache for d in waiting} == {CacheState.PRESENT}
    assert [d.error for d in waiting if "is full" not in d.error] == []
    assert not [location for location in copies_in(platform.under) if "/.@" in location]
    roomy = open_at()
    end_pauses(roomy)
    assert roomy.persister.drain().remaining == 0
    wipe_cache(roomy)
    assert digests_now(roomy) == digests_without_faults()


def test_a_full_under_store_fails_what_must_be_synchronous_and_says_so(
    open_at: Callable[..., Platform], landing: Path
) -> None:
    """Async&Sync promises that the load is safe, so it does not commit it."""
    platform = open_at(under_capacity=1000)
    with pytest.raises(PersistenceError, match="full"):
        run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC)
    assert {d.phase for d in platform.catalog.find(path="etl/load")} == {Phase.ABANDONED}
    datasets = run_workflow(open_at(), landing, strategy=Strategy.ASYNC_AND_SYNC)
    assert {path: dataset.digest for path, dataset in datasets.items()} == digests_without_faults()


# ---- the catalog


def test_a_workflow_goes_on_after_its_catalog_was_lost_and_rebuilt(
    open_at: Callable[..., Platform], landing: Path
) -> None:
    """What was persisted is known again; the DAG run that is repeated makes new generations beside it."""
    before = open_at()
    datasets = run_workflow(before, landing, strategy=Strategy.ASYNC_AND_SYNC)
    before.persister.drain()
    before.close()
    for file in before.settings.home.glob("catalog.db*"):
        file.unlink()
    wipe_cache(before)
    platform = open_at()
    report = platform.maintenance.rebuild()
    assert sorted(report.recorded_refs) == sorted(dataset.ref for dataset in datasets.values())
    assert digests_now(platform) == digests_without_faults()
    second_run = run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC, origin=Origin("etl", "run 2"))
    assert {dataset.ref.generation for dataset in second_run.values()} == {2}
    assert platform.persister.drain().remaining == 0
    assert sorted(platform.maintenance.retire()) == sorted(report.recorded_refs)
    assert digests_now(platform) == digests_without_faults()
    assert only_whole_copies_are_left(platform, copies_in(platform.under))


# ---- the landing file


def test_a_landing_file_that_goes_costs_nothing_under_async_and_sync(
    open_at: Callable[..., Platform], landing: Path
) -> None:
    """What was made of it is in the under-store before its load is done."""
    platform = open_at()
    _, under, _ = stage(platform)
    run_workflow(platform, landing, strategy=Strategy.ASYNC_AND_SYNC)
    landing.unlink()
    assert isinstance(under, Staged)
    wipe_cache(platform)
    assert digests_now(platform) == digests_without_faults()


@pytest.mark.parametrize("policy", ["paper", "value-density"])
def test_what_was_made_of_a_landing_file_is_first_in_the_queue(
    open_at: Callable[..., Platform], landing: Path, policy: str
) -> None:
    """It cannot be made again once the file is gone, so it goes before everything that can be."""
    platform = open_at(policy=policy)
    run_workflow(platform, landing, strategy=Strategy.ASYNC_STORE)
    first, *others = platform.persister.candidates()
    assert first.ref.path == "etl/load" and len(others) == 3
    landing.unlink()
    outcome = platform.persister.step()
    assert outcome is not None and outcome.ref.path == "etl/load"
    wipe_cache(platform)
    assert digests_now(platform) == digests_without_faults()
