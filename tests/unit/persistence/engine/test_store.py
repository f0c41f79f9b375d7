"""Writing and reading under the four strategies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from springline.persistence.errors import UnknownDatasetError
from springline.persistence.model.dataset import CacheState, Phase, Strategy
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make


def test_async_and_sync_waits_only_for_what_cannot_be_recomputed(platform: Platform) -> None:
    """Async&Sync writes the load synchronously, its idempotent child behind the job's back."""
    loaded = make(platform, "a", "load", strategy=Strategy.ASYNC_AND_SYNC)
    derived_dataset = make(platform, "b", "shout", ["a"], strategy=Strategy.ASYNC_AND_SYNC)
    salted = make(platform, "c", "salt", ["b"], strategy=Strategy.ASYNC_AND_SYNC)
    by_hand = make(platform, "d", lines=["x"], strategy=Strategy.ASYNC_AND_SYNC)
    assert [each.persisted for each in (loaded, derived_dataset, salted, by_hand)] == [True, False, True, True]


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


def test_an_error_in_the_write_abandons_the_generation_with_the_report_of_its_gate(platform: Platform) -> None:
    """Readers never see a write that failed; the report of the gate that stopped it is what a person looks for."""

    class StopError(Exception):
        report = {"rule": "broken"}  # noqa: RUF012

    with pytest.raises(StopError), platform.store.write("a", strategy=Strategy.ASYNC_STORE) as writing:
        raise StopError
    record = platform.catalog.get(writing.ref)
    assert (record.phase, record.report) == (Phase.ABANDONED, {"rule": "broken"})
    with pytest.raises(UnknownDatasetError), platform.store.read("a"):
        pass
