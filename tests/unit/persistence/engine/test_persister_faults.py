"""A persister when something goes wrong: stores that refuse, bytes that are damaged, workers that die or wake late."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.errors import CatalogUnavailableError, InvalidPathError, StorageUnavailableError
from springline.persistence.model.dataset import Strategy, TransferMethod
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make
from tests.support.commands import invoke
from tests.support.datasets.stages import nothing, once, raise_, stage
from tests.support.datasets.states import (
    copies_in,
    damage,
    end_pauses,
    events_of,
    expire_leases,
    let_go,
    lose_catalog,
    pause_of,
    wipe_cache,
)

# ---- stores, bytes and the catalog


def test_the_pause_doubles_with_each_attempt(open_at: Callable[..., Platform]) -> None:
    """Ten seconds, twenty, forty, and never more than a minute."""
    platform = open_at(retry_seconds=10)
    dataset = make(platform, "a", "load")
    shutil.rmtree(platform.under.root)  # type: ignore[attr-defined]
    pauses = []
    for _ in range(4):
        platform.persister.step()
        pauses.append(pause_of(platform, dataset.ref))
        end_pauses(platform)
    assert pauses == [pytest.approx(seconds, abs=9.5) for seconds in (10, 20, 40, 60)]


def test_a_catalog_that_goes_away_ends_no_worker(platform: Platform) -> None:
    """It gets nothing done then, and goes on when the catalog is back; one without patience says so."""
    make(platform, "a", "load")
    waiting, depth = platform.claims.list_claimable, platform.claims.depth
    platform.claims.list_claimable = platform.claims.depth = raise_(CatalogUnavailableError("away"))  # type: ignore[method-assign, assignment]
    assert platform.persister.step() is None
    with pytest.raises(CatalogUnavailableError):
        platform.persister.drain()

    def back(seconds: float) -> None:
        platform.claims.list_claimable, platform.claims.depth = waiting, depth  # type: ignore[method-assign]

    platform.persister.sleep = back
    assert platform.persister.drain(timeout=60).persisted == 1


def test_patience_tries_again_until_the_under_store_is_back(platform: Platform) -> None:
    """A worker that finds nothing to claim waits for the pause to end, as long as its patience lasts."""
    make(platform, "a", "load")
    root = platform.under.root  # type: ignore[attr-defined]
    moved_root = root.rename(root.with_name("away"))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            moved_root.rename(root)

    platform.persister.sleep = sleep
    summary = platform.persister.drain(timeout=60)
    assert (summary.persisted, summary.remaining, len(slept)) == (1, 0, 2)


def test_what_does_not_fit_keeps_no_other_waiting(open_at: Callable[..., Platform]) -> None:
    """A full under-store takes what is small enough, and names what it cannot take."""
    platform = open_at(under_capacity=4000, retry_seconds=100)
    large = make(platform, "large", lines=["x" * 5000])
    small = [make(platform, f"small{i}", lines=["x"]) for i in range(3)]
    summary = platform.persister.drain()
    assert [platform.catalog.get(d.ref).persisted for d in (large, *small)] == [False, True, True, True]
    assert summary.remaining == 1 and "full" in platform.catalog.get(large.ref).error
    assert lines_of(platform, "large") == ["x" * 5000]
    assert not [location for location in copies_in(platform.under) if "large" in location]


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("create", InvalidPathError("a link")),
        ("manifest", RecursionError("a library")),
        ("publish", KeyError("etag")),
        ("read_manifest", KeyError("etag")),
    ],
)
def test_whatever_a_store_raises_for_one_dataset_keeps_no_other_waiting(
    open_at: Callable[..., Platform], error: Exception, where: str
) -> None:
    """Errors that no store should raise are recorded with the dataset, which is tried again after a pause."""
    platform = open_at(retry_seconds=100)
    bad, good = make(platform, "bad", lines=["x"]), make(platform, "good", lines=["x"])
    _, under, _ = stage(platform)
    under.at = lambda point, location: raise_(error)() if point == where and location.startswith("bad") else None
    summary = platform.persister.drain()
    assert [platform.catalog.get(d.ref).persisted for d in (bad, good)] == [False, True]
    assert summary.remaining == 1 and str(error) in platform.catalog.get(bad.ref).error
    assert pause_of(platform, bad.ref) > 0
    under.at = nothing
    end_pauses(platform)
    assert platform.persister.drain().remaining == 0


@pytest.mark.parametrize("leads", ["outside", "inside", "nowhere", "to itself", "into a file"])
def test_a_copy_whose_place_became_a_link_is_lost_and_stops_nothing_else(
    platform: Platform, tmp_path: Path, leads: str
) -> None:
    """Neither persisting, checking, recovering nor making room; what cannot come back is named by `risk` too."""
    stored = make(platform, "stored", "load", strategy=Strategy.CACHE_THROUGH)
    cached, good = make(platform, "cached", "load"), make(platform, "good", "load")
    let_go(platform, stored.ref)
    places = [platform.cache.root / cached.cache_location, platform.under.root / stored.under_location]  # type: ignore[attr-defined]
    for number, place in enumerate(places):
        elsewhere = place.rename(tmp_path / f"elsewhere {number}")
        targets = {"outside": elsewhere, "inside": place.parent, "nowhere": tmp_path / "nowhere", "to itself": place}
        place.symlink_to(targets[leads]) if leads in targets else place.write_text("x")
    assert platform.persister.drain().remaining == 0 and platform.catalog.get(good.ref).persisted
    scan = platform.maintenance.scan(deep=True)
    assert (scan.lost, scan.unreachable) == ([stored.ref], {}) and not platform.catalog.get(cached.ref).in_cache
    assert set(platform.restorer.restore([cached.ref, stored.ref]).irrecoverable) == {cached.ref, stored.ref}
    settings = platform.settings
    environment = {"SPRINGLINE_HOME": str(settings.home), "SPRINGLINE_CACHE_URI": settings.cache_uri}
    environment["SPRINGLINE_CATALOG_URL"] = settings.catalog_url
    for command in (["dataset", "recover", "--deep"], ["risk"]):
        result = invoke(*command, env=environment)
        assert result.exit_code == 3 and "cached@1" in result.output and "stored@1" in result.output
    platform.cache.delete(cached.cache_location)  # the link, not what it leads to
    assert not places[0].is_symlink() and (tmp_path / "elsewhere 0").is_dir()


def test_a_folder_that_became_a_link_keeps_no_other_dataset_waiting(platform: Platform, tmp_path: Path) -> None:
    """Datasets below it are not restored, alone, with place and reason, but persisted; the others are both."""
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    far, near = make(platform, "far/b", "shout", ["a"]), make(platform, "near/b", "shout", ["a"])
    (platform.cache.root / "far").rename(tmp_path / "far")  # type: ignore[attr-defined]
    platform.cache.delete(near.cache_location)
    (platform.cache.root / "far").symlink_to(tmp_path / "far")  # type: ignore[attr-defined]
    assert platform.maintenance.scan(deep=True).lost == [far.ref, near.ref]
    report = platform.restorer.restore([far.ref, near.ref])
    assert list(report.failed) == [far.ref] and "leads through a link" in str(report.failed[far.ref])
    assert platform.catalog.get(near.ref).in_cache
    assert platform.persister.drain().remaining == 0
    assert platform.catalog.get(near.ref).persisted and platform.catalog.get(far.ref).persisted  # by its operation


def test_whatever_a_store_raises_for_one_dataset_is_found_with_it_and_the_others_are_checked(
    platform: Platform,
) -> None:
    """A scan names it as what could not be checked."""
    bad, good = make(platform, "bad", "load"), make(platform, "good", "load")
    platform.cache.delete(good.cache_location)
    cache, _, _ = stage(platform)
    cache.at = lambda point, location: raise_(KeyError("etag"))() if location.startswith("bad") else None
    scan = platform.maintenance.scan(deep=True)
    assert scan.unreachable == {bad.ref: "KeyError: 'etag'"} and scan.lost == [good.ref]


def test_bytes_damaged_on_their_way_are_sent_again(platform: Platform) -> None:
    """A copy whose checksum differs is thrown away; the cached bytes were not at fault."""
    dataset = make(platform, "a", "load")
    _, under, _ = stage(platform)
    under.at = once("manifest", lambda: damage(under.inner, *copies_in(under.inner)))
    first, second = platform.persister.drain().outcomes
    assert "files copied to the under-store" in first.error and not second.error
    record = platform.catalog.get(dataset.ref)
    assert record.persisted and Event.LOST not in events_of(platform, dataset.ref)
    assert copies_in(platform.under) == [record.under_location]


@pytest.mark.parametrize("how", [damage, lambda backend, location: backend.delete(location)])
def test_cached_bytes_found_damaged_are_recovered_and_sent(
    open_at: Callable[..., Platform], how: Callable[..., None]
) -> None:
    """What cannot be sent as it was written is lost, is recomputed, and is persisted then."""
    platform = open_at(min_operation_bytes=1 << 20)
    make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    dataset = make(platform, "b", "shout", ["a"])
    how(platform.cache, dataset.cache_location)
    first, second = platform.persister.drain().outcomes
    assert "cached files" in first.error and not second.error
    assert Event.LOST in events_of(platform, dataset.ref)
    assert platform.catalog.get(dataset.ref).persisted
    wipe_cache(platform)
    assert lines_of(platform, "b") == [f"LINE {i}" for i in range(100)]


def test_what_cannot_come_back_is_abandoned_by_name(platform: Platform) -> None:
    """The dataset and the reason are named, and the queue goes on without it."""
    dataset = make(platform, "a", "load")
    child = make(platform, "b", "shout", ["a"])
    other = make(platform, "c", lines=["x"])
    platform.cache.delete(dataset.cache_location)
    summary = platform.persister.drain()
    lost = platform.catalog.get(dataset.ref)
    assert summary.remaining == 0 and not lost.persist_requested
    assert "a@1" in lost.error and "not idempotent" in lost.error
    (entry,) = [m for m in platform.catalog.history(dataset.ref) if m.event == "persist_abandoned"]
    assert "not idempotent" in entry.reason
    assert platform.catalog.get(child.ref).persisted and platform.catalog.get(other.ref).persisted


def test_a_copy_that_a_lost_catalog_does_not_know_is_not_overwritten(open_at: Callable[..., Platform]) -> None:
    """The error says that a rebuild is missing, and what was persisted before stays as it was."""
    platform = open_at()
    make(platform, "a", lines=["old"])
    platform.persister.drain()
    (old,) = copies_in(platform.under)
    checksum = platform.under.manifest(old).checksum
    lose_catalog(platform)
    forgetful = open_at()
    wipe_cache(forgetful)
    make(forgetful, "a", lines=["new"])
    first, *_ = forgetful.persister.drain().outcomes
    assert "springline catalog rebuild" in first.error
    assert forgetful.under.manifest(old).checksum == checksum


# ---- dead workers


def test_a_copy_without_a_record_is_swept_too(platform: Platform) -> None:
    """A worker that died between its manifest and its record leaves a whole copy without a winner's name."""
    dataset = make(platform, "a", "load")
    _, under, _ = stage(platform)

    class Killed(BaseException):
        pass

    under.at = once("publish done", raise_(Killed()))
    with pytest.raises(Killed):
        platform.persister.step()
    (left,) = copies_in(platform.under)
    platform.persister.drain()
    assert copies_in(platform.under) == [platform.catalog.get(dataset.ref).under_location] != [left]


def test_an_under_store_that_cannot_be_swept_now_stops_no_worker(platform: Platform) -> None:
    """The half copy of a dead worker goes with the next claim, when the under-store is back."""
    dataset = make(platform, "a", "load")
    platform.claims.claim(dataset.ref, "dead", TransferMethod.DATA, None)
    with platform.under.create("a/@1-1_dead", "half.txt", 4) as file:
        file.write(b"half")
    expire_leases(platform)
    _, under, _ = stage(platform)
    under.at = once("names", raise_(StorageUnavailableError("away")))
    platform.persister.step()
    platform.persister.drain()
    assert copies_in(platform.under) == [platform.catalog.get(dataset.ref).under_location]


def test_a_worker_that_wakes_late_harms_nothing(open_at: Callable[..., Platform]) -> None:
    """Its lease ran out in the middle, another worker was the winner: the zombie's copy goes, the state stays."""
    zombie, other = open_at(), open_at()
    dataset = make(zombie, "a", "load")
    _, under, _ = stage(zombie)

    def meanwhile() -> None:
        expire_leases(other)
        assert other.persister.drain().persisted == 1

    for point in ("create", "manifest", "publish", "publish done"):
        under.at = once(point, meanwhile)
        outcome = zombie.persister.step()
        assert outcome is not None and outcome.error, point
        record = other.catalog.get(dataset.ref)
        assert record.persisted and record.in_cache, point
        assert Event.LOST not in events_of(other, dataset.ref), point
        assert copies_in(other.under) == [record.under_location], point
        other.catalog.change(dataset.ref, Event.UNDER_STORE_LOST)
