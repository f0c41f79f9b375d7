"""What a lost catalog is rebuilt from, and what is adopted into one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.errors import InvalidPathError, PersistenceError, UnknownDatasetError
from springline.persistence.model.dataset import CacheState, Origin, Ref, Strategy, TransferMethod, UnderStoreState
from springline.persistence.model.manifest import FILE_NAME, encode_manifest
from springline.persistence.model.transitions import Event
from springline.persistence.platform import Platform
from springline.testing.lines import LinesRunner, lines_of, write_lines
from springline.testing.lines import make_dataset as make
from tests.support.datasets.states import events_of, let_go, lose_catalog, wipe_cache

LINES = [f"line {i}" for i in range(100)]
RUN = Origin("etl", "run 1", "task")


# ---- rebuild


def test_a_lost_catalog_is_rebuilt_from_the_manifests(open_at: Callable[..., Platform]) -> None:
    """Paths, generations, operations' calls, sources, digests: what was persisted is known again, and can be used."""
    before = open_at()
    datasets = [
        make(before, "a", lines=["older"], strategy=Strategy.CACHE_THROUGH),
        make(before, "a", "load", strategy=Strategy.CACHE_THROUGH, origin=RUN),
        make(before, "b", "shout", ["a"], params={"ds": "2013-01-05"}),
        make(before, "c c/Köln 航班", "count", ["b"]),
    ]
    before.persister.drain()
    records = [before.catalog.get(d.ref) for d in datasets]
    lose_catalog(before)
    platform = open_at()
    report = platform.maintenance.rebuild()
    assert report.recorded_refs == [d.ref for d in datasets]
    assert (report.unusable, report.without_source) == ([], {})
    for old in records:
        new = platform.catalog.get(old.ref)
        assert (new.call, new.sources, new.digest, new.origin) == (old.call, old.sources, old.digest, old.origin)
        assert (new.cache, new.under, new.superseded) == (CacheState.EVICTED, UnderStoreState.PRESENT, old.superseded)
        assert events_of(platform, new.ref) == ["rebuilt"]
    assert lines_of(platform, "c c/Köln 航班") == ["100"] and lines_of(platform, "a") == LINES
    assert platform.maintenance.scan(deep=True).lost == []
    assert make(platform, "a", lines=["newest"]).ref == Ref("a", 3)
    assert lines_of(platform, "a") == ["newest"]
    assert platform.maintenance.retire() == [Ref("a", 1), Ref("a", 2)]


def test_a_source_that_was_not_persisted_is_known_to_be_gone(
    open_at: Callable[..., Platform], runner: LinesRunner
) -> None:
    """It is named, it keeps its number, and the operation is not run on the sources that are left."""
    before = open_at()
    for path in ("a", "b"):
        make(before, path, "load", strategy=Strategy.CACHE_ONLY)
    runner.add("join", lambda sources, params: [line for lines in sources for line in lines])
    make(before, "c", "join", ["a", "b"], strategy=Strategy.CACHE_THROUGH)
    make(before, "d", "join", ["a", "c"], strategy=Strategy.CACHE_THROUGH)
    lose_catalog(before)
    wipe_cache(before)
    platform = open_at()
    report = platform.maintenance.rebuild()
    assert report.without_source == {Ref("c", 1): ["a@1", "b@1"], Ref("d", 1): ["a@1"]}
    platform.store.register_operations(runner.operations().values())
    dataset = platform.catalog.get(Ref("c", 1))
    assert dataset.sources == (Ref("a", 1), Ref("b", 1))
    reasons = platform.catalog.lineage_around([dataset.ref]).recompute_obstacles(dataset.ref)
    assert reasons == ("a@1 is retired", "b@1 is retired")
    with pytest.raises(UnknownDatasetError):
        platform.catalog.resolve("a")
    assert make(platform, "a", "load").ref == Ref("a", 2)


def test_copies_that_cannot_be_used_are_named_and_the_others_recorded(open_at: Callable[..., Platform]) -> None:
    """Damaged manifests, copies that lie where they do not belong, and those of which files are gone."""
    before = open_at()
    damaged = make(before, "damaged", "load", strategy=Strategy.CACHE_THROUGH)
    moved = make(before, "moved", "load", strategy=Strategy.CACHE_THROUGH)
    half = make(before, "half", "load", strategy=Strategy.CACHE_THROUGH)
    make(before, "whole", "load", strategy=Strategy.CACHE_THROUGH)
    before.under.publish(damaged.under_location, b"{")
    root: Path = before.under.root  # type: ignore[attr-defined]
    (root / "backup").mkdir()
    (root / moved.under_location).rename(root / "backup/@9-9")
    (missing,) = before.under.files(half.under_location)
    before.under.delete(f"{half.under_location}/{missing.name}")
    lose_catalog(before)
    report = open_at().maintenance.rebuild()
    assert report.recorded_refs == [Ref("whole", 1)]
    assert sorted(report.unusable)[:2] == [
        "backup/@9-9 holds a copy of moved@1, which belongs elsewhere",
        f"{damaged.under_location}/{FILE_NAME}: the manifest of a copy cannot be read: Input data was truncated",
    ]
    assert sorted(report.unusable)[2:] == [f"{half.under_location} lacks {missing.name}, which its manifest names"]


def test_of_several_copies_the_newest_lease_counts_and_half_ones_do_not(open_at: Callable[..., Platform]) -> None:
    """A dead worker may have left a complete copy that was not recorded."""
    before = open_at()
    dataset = make(before, "a", "load", strategy=Strategy.CACHE_THROUGH)
    for location in ("a/@1-3_x", "a/@1-12_x", "a/@1-0_x"):
        write_lines(before.under.uri(location), LINES)
        if location != "a/@1-12_x":
            before.under.publish(location, encode_manifest(dataset, before.under.manifest(location)))
    lose_catalog(before)
    platform = open_at()
    assert platform.maintenance.rebuild().recorded_refs == [dataset.ref]
    assert platform.catalog.get(dataset.ref).under_location == "a/@1-3_x"
    platform.catalog.change(dataset.ref, Event.UNDER_STORE_LOST)
    lease = platform.claims.claim(dataset.ref, "worker", TransferMethod.DATA, None)
    assert lease is not None and lease.number == 4


def test_what_a_lost_catalog_left_in_the_cache_disturbs_no_writer(open_at: Callable[..., Platform]) -> None:
    """A generation's number may be given again; its folder is empty then. What is known is never overwritten."""
    before = open_at()
    make(before, "a", lines=["of the lost catalog"])
    lose_catalog(before)
    platform = open_at()
    assert platform.maintenance.rebuild().recorded_refs == []
    assert make(platform, "a", lines=["x"]).ref == Ref("a", 1)
    assert lines_of(platform, "a") == ["x"]
    with pytest.raises(PersistenceError, match="not empty"):
        platform.maintenance.rebuild()


# ---- adopt


def test_files_that_are_there_already_are_adopted_where_they_are(platform: Platform) -> None:
    """They are the next generation, persisted, read like any other, and a source of more; cut short, they are lost."""
    write_lines(platform.under.uri("incoming/2013 flights"), ["from before"])
    adopted = platform.maintenance.adopt("etl/flights", "incoming/2013 flights")
    assert adopted.persisted and adopted.under_location == "incoming/2013 flights"
    assert lines_of(platform, "etl/flights") == ["from before"]
    make(platform, "b", "shout", ["etl/flights"])
    assert platform.catalog.lineage_around([Ref("b", 1)]).is_recomputable(Ref("b", 1))
    let_go(platform, adopted.ref)
    (file,) = platform.under.files(adopted.under_location)
    (platform.under.root / adopted.under_location / file.name).write_bytes(b"cut")  # type: ignore[attr-defined]
    assert not platform.restorer.verifier.verify(platform.catalog.get(adopted.ref)).persisted


def test_adopted_files_outlive_their_generation(platform: Platform) -> None:
    """Who adopts does not own: what was not written here is not removed here."""
    write_lines(platform.under.uri("incoming/x"), ["from before"])
    for _ in range(2):
        platform.maintenance.adopt("a", "incoming/x")
    assert platform.maintenance.retire() == [Ref("a", 1)]
    wipe_cache(platform)
    assert lines_of(platform, "a") == ["from before"]
    make(platform, "a", lines=["new"])
    assert platform.maintenance.retire() == [Ref("a", 2)]
    assert platform.under.exists("incoming/x")


@pytest.mark.parametrize(
    ("location", "expected_message"),
    [
        ("nowhere", "^nowhere: the under-store has no such folder$"),
        ("a file", "the under-store has no such folder"),
        ("empty", "the folder is empty"),
        ("../outside", "not a path below it"),
        ("a/{copy}", "copies made by Springline"),
        ("a", "copies made by Springline"),
    ],
)
def test_what_cannot_be_adopted_is_refused(platform: Platform, location: str, expected_message: str) -> None:
    """Nothing there, no folder, no files, outside, or copies that were made here; the catalog stays as it was."""
    dataset = make(platform, "a", "load", strategy=Strategy.CACHE_THROUGH)
    (platform.under.root / "empty").mkdir()  # type: ignore[attr-defined]
    (platform.under.root / "a file").touch()  # type: ignore[attr-defined]
    with pytest.raises(InvalidPathError, match=expected_message):
        platform.maintenance.adopt("b", location.format(copy=dataset.under_location.removeprefix("a/")))
    assert platform.catalog.find(path="b") == []
