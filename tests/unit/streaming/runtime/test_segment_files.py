"""Where runs of states lie: in memory, or on disk when they are large, or memory is scarce or full; nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.errors import CorruptStateError, DiskFullError, MissingStateError
from springline.spark_jobs.streaming.runtime import segment_files
from springline.spark_jobs.streaming.runtime.segment_files import SpillFolder
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, StateStore
from springline.spark_jobs.streaming.runtime.step import State

LARGE = 200_000  # rows, of 8 bytes each
Full = Callable[..., None]


def batch(rows: int, first: int = 0) -> pa.RecordBatch:
    """So many whole numbers."""
    return pa.record_batch({"n": np.arange(first, first + rows)})


@pytest.fixture
def versions(tmp_path: Path) -> StateStore:
    """A unit whose runs of a megabyte and more lie on disk."""
    return StateStore(tmp_path / "memory" / "unit", SpillFolder(tmp_path / "disk" / "unit", 1 << 20))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Full:
    """Lets places be full from now on: a run that is written there comes to half of its bytes."""
    places: list[Path] = []
    os_file = pa.OSFile

    class File:
        def __init__(self, path: str, mode: str) -> None:
            self._file = os_file(path, mode)
            self._full = any(place in Path(path).parents for place in places)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        closed = property(lambda self: self._file.closed)

        def flush(self) -> None:
            self._file.flush()

        def write(self, content: Any) -> int:
            if self._full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return int(self._file.write(content))

    monkeypatch.setattr(segment_files.pa, "OSFile", File)

    def fill(*names: str) -> None:
        places[:] = [tmp_path / name for name in names]

    return fill


def files(folder: Path) -> set[str]:
    """The names of all files below a folder, those too that are half written."""
    return {path.name for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def save(versions: StateStore, before: StateSnapshot, *runs: pa.RecordBatch) -> StateSnapshot:
    """The next round, with these runs."""
    return versions.save(before, State({}, {"rows": runs}), (1, before.round + 1))


def test_a_large_run_lies_on_disk_and_a_small_one_in_memory(versions: StateStore, tmp_path: Path) -> None:
    """Both are found, and come back as they were, whoever reads: also one that knows nothing of the disk."""
    saved = save(versions, versions.load(1, 0), batch(LARGE), batch(3))
    large, small = saved.runs["rows"]
    assert files(tmp_path / "disk") == {large.file}
    assert files(versions.folder / "runs") == {small.file}
    for reader in (versions, StateStore(versions.folder)):
        assert reader.is_complete(1, 1)
        assert list(reader.load(1, 1).state.runs["rows"]) == [batch(LARGE), batch(3)]
        assert reader.pack(1, 1).rows == LARGE + 3


def test_a_large_run_is_read_in_its_file(versions: StateStore) -> None:
    """The state to go on from has no copy of it in memory, and it is not written again when it is kept."""
    large_batch, allocated = batch(LARGE), pa.total_allocated_bytes()
    saved = save(versions, versions.load(1, 0), large_batch, batch(3))
    stored_batch = saved.state.runs["rows"][0]
    assert stored_batch is not large_batch and stored_batch == large_batch
    assert pa.total_allocated_bytes() - allocated < 1 << 19  # what is mapped is not counted
    after = save(versions, saved, stored_batch, batch(4))
    assert after.runs["rows"][0] == saved.runs["rows"][0]
    assert after.state.runs["rows"][0] is stored_batch


def test_scarce_memory_spills_small_runs(versions: StateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that manifests and reports, which have no other place, find room."""
    file_system = SimpleNamespace(f_frsize=4096, f_blocks=1_000, f_bavail=1_000)
    monkeypatch.setattr(os, "statvfs", lambda path: file_system)
    first = save(versions, versions.load(1, 0), batch(3))
    assert files(tmp_path / "disk") == set()
    file_system.f_bavail = 62  # of 1,000: less than a sixteenth
    second = save(versions, first, *first.state.runs["rows"], batch(4))
    assert files(tmp_path / "disk") == {second.runs["rows"][1].file}
    assert list(versions.load(1, 2).state.runs["rows"]) == [batch(3), batch(4)]


@pytest.mark.parametrize(("place", "rows"), [("memory", 3), ("disk", LARGE)])
def test_a_run_goes_where_room_is(versions: StateStore, tmp_path: Path, full: Full, place: str, rows: int) -> None:
    """What was half written is gone."""
    full(place)
    saved = save(versions, versions.load(1, 0), batch(rows))
    assert versions.load(1, 1).state.runs["rows"] == (batch(rows),)
    assert len(files(tmp_path / "memory") | files(tmp_path / "disk")) == 2  # the run and the manifest
    assert versions.pack(1, 1).files.keys() == {*saved.files, "manifest.json"}


def test_without_any_room_the_round_can_be_run_again_later(versions: StateStore, tmp_path: Path, full: Full) -> None:
    """The state before is still there, and nothing of the one after."""
    first = save(versions, versions.load(1, 0), batch(3))
    before = files(tmp_path)
    full("memory", "disk")
    expected = r"no space for a segment of 1,600,000 bytes.*disk/unit: .*left.*memory/unit/runs: "
    with pytest.raises(DiskFullError, match=expected):
        save(versions, first, *first.state.runs["rows"], batch(LARGE))
    assert files(tmp_path) == before and versions.newest() == (1, 1)
    full()
    save(versions, versions.load(1, 1), batch(LARGE))
    assert versions.load(1, 2).state.runs["rows"] == (batch(LARGE),)


def test_without_a_disk_a_full_memory_is_an_error(tmp_path: Path, full: Full) -> None:
    """By its name."""
    versions = StateStore(tmp_path / "memory" / "unit")
    full("memory")
    with pytest.raises(DiskFullError, match="memory/unit/runs"):
        save(versions, versions.load(1, 0), batch(3))


def test_pruning_removes_runs_from_disk_and_those_that_nothing_links_to(versions: StateStore, tmp_path: Path) -> None:
    """Also those that another setting put elsewhere, and those of a state that was lost."""
    elsewhere = StateStore(versions.folder, SpillFolder(tmp_path / "elsewhere", 0))
    version = save(elsewhere, versions.load(1, 0), batch(LARGE))
    version = save(versions, version, batch(LARGE, 1))
    version = save(versions, version, batch(LARGE, 2))
    lost_file = tmp_path / "disk" / "unit" / "1-rows-lost.arrow"
    lost_file.write_bytes(b"")
    versions.prune((), before=(1, 3))
    assert files(tmp_path / "elsewhere") == set()
    assert files(tmp_path / "disk") == {run.file for run in version.runs["rows"]}
    assert versions.load(1, 3).state.runs["rows"] == (batch(LARGE, 2),)


def test_what_a_process_that_was_killed_has_left_is_removed_at_the_start(versions: StateStore, tmp_path: Path) -> None:
    """Half files, and runs that no version names, of whatever round; what versions name stays."""
    version = save(versions, versions.load(1, 0), batch(LARGE), batch(3))
    files_before = files(tmp_path)
    memory, disk = versions.folder / "runs", tmp_path / "disk" / "unit"
    for folder in (versions.folder, versions.folder / "1", memory, disk):
        (folder / f".{'0f' * 16}").write_bytes(b"half")
    run_of_no_version = disk / "2-rows-lost.arrow"
    run_of_no_version.write_bytes(b"")
    (memory / run_of_no_version.name).symlink_to(run_of_no_version)
    (memory / "7-rows-lost.arrow").write_bytes(b"")
    versions.vacuum()
    assert files(tmp_path) == files_before and not (memory / run_of_no_version.name).is_symlink()
    assert versions.load(1, 1).runs == version.runs and versions.is_complete(1, 1)
    StateStore(tmp_path / "never ran").vacuum()


def test_a_state_lost_with_memory_is_restored_whatever_lies_on_disk(versions: StateStore, tmp_path: Path) -> None:
    """A file that is left there from before may be damaged: it is written again."""
    save(versions, versions.load(1, 0), batch(LARGE))
    packed = versions.pack(1, 1)
    for path in sorted((tmp_path / "memory").rglob("*"), reverse=True):
        path.unlink() if path.is_symlink() or path.is_file() else path.rmdir()
    (left,) = (tmp_path / "disk" / "unit").iterdir()
    left.write_bytes(b"x" * left.stat().st_size)
    assert not versions.is_complete(1, 1)
    versions.unpack(1, 1, packed)
    assert versions.load(1, 1).state.runs["rows"] == (batch(LARGE),)


def test_a_run_that_is_gone_from_disk_or_damaged_there_is_an_error(versions: StateStore, tmp_path: Path) -> None:
    """As one in memory is."""
    save(versions, versions.load(1, 0), batch(LARGE))
    (path,) = (tmp_path / "disk" / "unit").iterdir()
    path.write_bytes(b"")
    with pytest.raises(CorruptStateError, match=path.name):
        versions.load(1, 1)
    path.unlink()
    assert not versions.is_complete(1, 1)
    with pytest.raises(MissingStateError, match=path.name):
        versions.load(1, 1)
