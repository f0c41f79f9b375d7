"""A persister at work: what it chooses, and how it sends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.engine.copier import BandwidthLimiter
from springline.persistence.model.dataset import (
    Call,
    Dataset,
    ExecutionSide,
    OperationResult,
    Ref,
    Strategy,
    TransferMethod,
)
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, digest_of, lines_of
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import stage
from tests.support.datasets.states import copies_in, damage, events_of, let_go, measured, wipe_cache


def make_derived(platform: Platform) -> Dataset:
    """`b`, made by shout from a persisted `a`; running shout below is known to be quicker than the link."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "shout", ["a"])
    measured(platform, "shout", run=0.001, send=10.0)
    return dataset


# ---- data


def test_a_transfer_is_measured_and_the_next_one_predicted_from_it(platform: Platform) -> None:
    """Predictions come from history, and what was predicted is kept beside what it took."""
    make(platform, "a", "load")
    platform.persister.drain()
    second = make(platform, "a2", "load")
    (outcome,) = platform.persister.drain().outcomes
    assert outcome.predicted_seconds is not None
    assert platform.catalog.get(second.ref).predicted_seconds == outcome.predicted_seconds


def test_a_worker_sends_its_bytes_a_second_and_no_more_and_gives_way_while_a_job_waits() -> None:
    """What it sends at once is held until its time has come, also over several chunks.

    Between two chunks it stops until no one waits any more; the time that it yielded is no time of the link.
    """
    now, waits = [0.0], [True, True, True, False]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    limiter = BandwidthLimiter(1000.0, clock=lambda: now[0], sleep=sleep)
    for _ in range(4):
        limiter(500)
    assert now[0] == pytest.approx(2.0) and limiter.yielded_seconds == 0
    limiter = BandwidthLimiter(should_yield=lambda: waits.pop(0), clock=lambda: now[0], sleep=sleep)
    limiter(1000)
    assert waits == [] and limiter.yielded_seconds == pytest.approx(now[0] - 2.0) and limiter.yielded_seconds > 0


def test_an_empty_file_and_several_files_are_sent(platform: Platform) -> None:
    """A folder of parts goes whole, whatever its parts' sizes."""
    with platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        folder = Path(writing.uri.removeprefix("file://"))
        (folder / "day=1").mkdir(parents=True)
        (folder / "day=1/part 1.txt").write_text("x\n")
        (folder / "part-2.txt").write_text("")
        (folder / "_SUCCESS").write_text("")
        writing.mark_complete(OperationResult(1, digest_of(["x"]), 0.01))
    platform.persister.drain()
    record = platform.catalog.get(writing.ref)
    names = [file.name for file in platform.under.files(record.under_location)]
    assert names == ["_SUCCESS", "day=1/part 1.txt", "part-2.txt"]


def test_unwanted_cache_only_and_open_datasets_are_not_sent(platform: Platform) -> None:
    """Temporary files stay out of the queue, and so does what is still being written."""
    make(platform, "a", "load", persist_requested=False)
    make(platform, "b", "load", strategy=Strategy.CACHE_ONLY)
    with platform.store.write("c", strategy=Strategy.ASYNC_STORE) as writing:
        writing.mark_complete(platform.runner.run(Call("load", "1"), [], writing.uri))
        assert platform.persister.step() is None and copies_in(platform.under) == []


# ---- the operation


def test_the_operation_is_sent_where_it_is_predicted_to_be_quicker(platform: Platform, runner: LinesRunner) -> None:
    """Nothing of the output crosses the link: it is made below, from the copies below, and proved by its digest."""
    dataset = make_derived(platform)
    runner.executed_operations.clear()
    _, under, _ = stage(platform)
    created: list[str] = []
    under.at = lambda point, location: created.append(location) if point == "create" else None
    (outcome,) = platform.persister.drain().outcomes
    record = platform.catalog.get(dataset.ref)
    assert outcome.method is record.method is TransferMethod.OPERATION
    assert outcome.actual_seconds == record.actual_seconds
    assert (runner.executed_operations, created) == (["shout"], [])
    assert record.persisted and record.in_cache
    assert record.under_checksum != record.checksum  # its bytes differ, its rows do not
    let_go(platform, dataset.ref)
    assert lines_of(platform, "b") == [f"LINE {i}" for i in range(100)]


def test_an_operation_that_repeated_itself_is_noted(platform: Platform) -> None:
    """A second run with the same digest is what eviction asks for; its time is history for the next prediction."""
    make_derived(platform)
    platform.persister.drain()
    (operation,) = [o for o in platform.catalog.operations() if o.name == "shout"]
    assert operation.repeats == 1 and not operation.nondeterministic
    lineage = platform.catalog.lineage_around([Ref("b", 1)])
    assert len(platform.catalog.load_cost_model(lineage).compute["shout", ExecutionSide.STORAGE]) > 1


def test_small_ones_go_as_data(open_at: Callable[..., Platform], runner: LinesRunner) -> None:
    """Up to the bound the operation is not worth its start."""
    platform = open_at(min_operation_bytes=1 << 20)
    dataset = make_derived(platform)
    platform.persister.drain()
    assert platform.catalog.get(dataset.ref).method is TransferMethod.DATA


def test_a_liar_is_found_nondeterministic_and_its_data_sent(platform: Platform, runner: LinesRunner) -> None:
    """What an operation makes below differs: the data goes, predicted as data, and nobody relies on it any more."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "liar", ["a"])
    other = make(platform, "c", "liar", ["a"])
    before = lines_of(platform, "b")
    measured(platform, "liar", run=0.001, send=10.0)
    outcome = platform.persister.step()
    first, second = sorted(map(platform.catalog.get, (dataset.ref, other.ref)), key=lambda d: not d.persisted)
    assert first.persisted and first.method is TransferMethod.DATA
    assert outcome is not None and outcome.predicted_seconds == first.predicted_seconds > 1
    assert not second.persisted and second.expedited
    (operation,) = [o for o in platform.catalog.operations() if o.name == "liar"]
    assert operation.nondeterministic
    runner.executed_operations.clear()
    platform.persister.drain()
    assert runner.executed_operations == [] and platform.catalog.get(second.ref).method is TransferMethod.DATA
    wipe_cache(platform)
    assert lines_of(platform, "b") == before
    assert len(copies_in(platform.under)) == 3


@pytest.mark.parametrize("how", [damage, lambda backend, location: backend.delete(location)])
def test_a_source_damaged_or_gone_below_is_neither_a_loss_of_the_output_nor_a_fault_of_its_operation(
    platform: Platform, how: Callable[..., None]
) -> None:
    """Another result from other bytes proves nothing; the output is sent as data, and the source's copy again."""
    dataset = make_derived(platform)
    source = platform.catalog.resolve("a")
    how(platform.under, source.under_location)
    summary = platform.persister.drain()
    assert Event.LOST not in events_of(platform, dataset.ref)
    assert platform.catalog.get(dataset.ref).method is TransferMethod.DATA
    assert not any(operation.nondeterministic for operation in platform.catalog.operations())
    record = platform.catalog.get(source.ref)
    assert summary.remaining == 0 and record.persisted
    assert platform.under.manifest(record.under_location).checksum == record.checksum


# ---- evicted ones


def test_an_evicted_one_is_persisted_by_its_operation_once_its_source_is_there(
    platform: Platform, runner: LinesRunner
) -> None:
    """Its bytes are gone from the cache, its place in the queue is not: even at the head, it waits for its source."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    middle = make(platform, "b", "shout", ["a"]).ref
    last = make(platform, "c", "count", ["b"]).ref
    let_go(platform, last)
    platform.catalog.amend(last, expedited=True)
    runner.executed_operations.clear()
    first, second = platform.persister.drain().outcomes
    assert [first.ref, second.ref] == [middle, last]
    assert platform.catalog.get(last).method is TransferMethod.OPERATION
    assert "count" in runner.executed_operations and lines_of(platform, "c") == ["100"]


def test_an_evicted_one_whose_source_is_not_persisted_is_recomputed_and_sent(
    platform: Platform, runner: LinesRunner
) -> None:
    """A temporary source stays in the cache alone, so the operation runs beside the cache."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    make(platform, "b", "shout", ["a"], persist_requested=False)
    last = make(platform, "c", "count", ["b"])
    let_go(platform, last.ref)
    (outcome,) = platform.persister.drain().outcomes
    assert (outcome.error, outcome.method) == ("", TransferMethod.DATA)
    assert platform.catalog.get(last.ref).persisted and lines_of(platform, "c") == ["100"]


def test_a_score_that_depends_on_others_is_worked_out_when_it_is_claimed(open_at: Callable[..., Platform]) -> None:
    """`edge` sends leaves first: a stored score from before the child was made no longer holds."""
    platform = open_at(policy="edge")
    make(platform, "a", "load")
    make(platform, "b", "shout", ["a"])
    assert [outcome.ref.path for outcome in platform.persister.drain().outcomes] == ["b", "a"]
