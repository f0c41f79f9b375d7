"""An under-store whose lists are out of date, whose manifests are seen late, or whose answers get lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from springline.persistence.engine.replacement import victim_by_hand
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.dataset import CacheState, Dataset, OperationResult, Strategy
from springline.persistence.model.manifest import File
from springline.persistence.platform import Platform
from springline.testing.lines import make_dataset as make
from tests.support.datasets.stages import Staged, once, raise_, stage
from tests.support.datasets.states import copies_in, let_go, wipe_cache

CONTENTS = {"part-0.txt": "one\n", "part-1.txt": "two\n", "x/part-2.txt": "three\n"}


def persisted(platform: Platform) -> Dataset:
    """A persisted dataset of several files, which has left the cache."""
    with platform.store.write("a", strategy=Strategy.CACHE_THROUGH) as writing:
        for name, content in CONTENTS.items():
            file = Path(writing.uri.removeprefix("file://")) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        writing.mark_complete(OperationResult(3, "", 0.0))
    let_go(platform, writing.ref)
    return platform.catalog.get(writing.ref)


def list_only(under: Staged, *names: str) -> None:
    """Let lists of files have these names alone."""
    files = under.inner.files
    under.files = lambda location: tuple(file for file in files(location) if file.name in names)  # type: ignore[attr-defined]


def read(platform: Platform) -> dict[str, str]:
    """What a reader finds in the dataset's files."""
    with platform.store.read("a") as reading:
        folder = Path(reading.uri.removeprefix("file://"))
        return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


# ---- manifests


def test_a_manifest_that_is_seen_late_is_waited_for(platform: Platform) -> None:
    """The copy counts once a reader would find it."""
    dataset = make(platform, "a", "load")
    _, under, _ = stage(platform)
    late = [1, 2, 3]

    def at(point: str, location: str) -> None:
        if point == "read_manifest" and late:
            late.pop()
            raise FileNotFoundError(location)

    under.at = at
    assert platform.persister.drain().persisted == 1 and not late
    assert platform.catalog.get(dataset.ref).attempts == 1


def test_a_manifest_that_is_not_seen_at_all_makes_no_copy(platform: Platform) -> None:
    """The attempt failed, the reason says of what, and the next one starts from the beginning."""
    dataset = make(platform, "a", "load")
    _, under, _ = stage(platform)
    under.at = lambda point, location: raise_(FileNotFoundError(location))() if point == "read_manifest" else None
    outcome = platform.persister.step()
    assert outcome is not None and "its manifest was written, and is not there" in outcome.error
    under.at = lambda point, location: None
    assert platform.persister.drain().persisted == 1
    assert copies_in(platform.under) == [platform.catalog.get(dataset.ref).under_location]


def test_a_manifest_whose_acknowledgement_was_lost_is_swept_with_its_copy(platform: Platform) -> None:
    """It is complete, and nobody knows: the next attempt leaves one copy."""
    dataset = make(platform, "a", "load")
    _, under, _ = stage(platform)
    under.at = once("publish done", raise_(StorageUnavailableError("no answer")))
    outcome = platform.persister.step()
    assert outcome is not None and "no answer" in outcome.error and len(copies_in(platform.under)) == 1
    assert platform.persister.drain().persisted == 1
    assert copies_in(platform.under) == [platform.catalog.get(dataset.ref).under_location]


# ---- lists


@pytest.mark.parametrize("listed", [(), ("part-1.txt",)], ids=["nothing", "one of three"])
def test_a_list_that_is_out_of_date_loses_nothing(platform: Platform, listed: tuple[str, ...]) -> None:
    """What the manifest names and the list does not is asked for, and read."""
    dataset = persisted(platform)
    _, under, _ = stage(platform)
    list_only(under, *listed)
    assert platform.restorer.verifier.verify(dataset).persisted
    assert read(platform) == CONTENTS
    dataset = platform.catalog.get(dataset.ref)
    assert dataset.in_cache and platform.replacement.evict(victim_by_hand(dataset.ref, dataset.bytes))


@pytest.mark.parametrize("operation_made_it", [False, True])
def test_a_copy_half_deleted_by_somebody_else_is_lost(platform: Platform, *, operation_made_it: bool) -> None:
    """Also one whose size in the cache is another."""
    dataset = persisted(platform)
    if operation_made_it:
        platform.catalog.amend(dataset.ref, checksum="of other bytes")
        dataset = platform.catalog.get(dataset.ref)
    platform.under.delete(f"{dataset.under_location}/x/part-2.txt")
    record = platform.restorer.verifier.verify(dataset)
    assert not record.persisted and record.cache is CacheState.LOST


def test_files_whose_manifest_somebody_deleted_are_still_read(platform: Platform) -> None:
    """They are the ones that the catalog knows; nothing is called lost that is there."""
    dataset = persisted(platform)
    platform.under.delete(f"{dataset.under_location}/_springline.json")
    assert platform.restorer.verifier.verify(dataset).persisted
    assert read(platform) == CONTENTS


def test_a_file_larger_than_its_manifest_says_is_damage(platform: Platform) -> None:
    """Whatever the sum of all sizes is."""
    dataset = persisted(platform)
    _, under, _ = stage(platform)
    under.files = lambda location: (File("part-0.txt", 99), File("part-1.txt", 4))  # type: ignore[attr-defined]
    assert not platform.restorer.verifier.verify(dataset).persisted


# ---- another catalog


def test_two_catalogs_in_one_store_never_write_into_one_copy(open_at: Callable[..., Platform], tmp_path: Path) -> None:
    """Not even of the same generation under the same lease: the second is refused, and the first is as it was."""
    under_uri = (tmp_path / "shared").as_uri()
    first, second = (
        open_at(home=tmp_path / name, cache_uri=(tmp_path / f"cache {name}").as_uri(), under_uri=under_uri)
        for name in ("one", "two")
    )
    dataset = make(first, "a", lines=["of the first"])
    make(second, "a", lines=["of the second"])
    assert first.persister.drain().persisted == 1
    outcome = second.persister.step()
    assert outcome is not None and "catalog rebuild" in outcome.error
    wipe_cache(first)
    assert first.restorer.verifier.verify(first.catalog.get(dataset.ref), deep=True).persisted
    assert copies_in(first.under) == [first.catalog.get(dataset.ref).under_location]
