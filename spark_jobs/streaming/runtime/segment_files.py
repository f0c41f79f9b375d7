"""The files of a unit's runs: in memory beside its versions, or on disk and linked from there.

    FOLDER/<round>-<name>-<hash>.arrow    one run, or a link to it; the hash (xxh3, 128 bits) is of its content

Readers need not know where a run is stored. Large runs are written to disk, and all runs while memory is scarce; if one
place is full, the other is used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import xxhash

from springline.spark_jobs.streaming.errors import CorruptStateError, DiskFullError, MissingStateError
from springline.spark_jobs.streaming.runtime.atomic_files import atomic_file, remove_temporary_files

_RESERVED_SHARE = 1 / 16  # of the memory file system: reserved for small files, which cannot be spilled
_MAPPED_BYTES = 1 << 20  # of a run that is memory-mapped after writing, so that it is in memory once


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One run of a version: its file, its rows, the bytes of the file."""

    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SpillFolder:
    """The folder on disk for runs of one unit, and the size in bytes from which runs are always stored there."""

    folder: Path
    min_bytes: int


class SegmentFiles:
    """The runs in `folder`, in memory, or on disk according to `spill`."""

    def __init__(self, folder: Path, spill: SpillFolder | None = None) -> None:
        self.folder = folder
        self._spill = spill

    def open(self, run: SegmentFile) -> pa.RecordBatch:
        """Memory-map a run; raises `MissingStateError`, or `CorruptStateError` if it is incomplete."""
        path = self.folder / run.file
        try:
            if path.stat().st_size != run.bytes:
                raise CorruptStateError(f"{path}: {path.stat().st_size:,} bytes, but {run.bytes:,} were written")
            with pa.memory_map(str(path)) as source:
                return pa.ipc.open_file(source).get_batch(0)
        except FileNotFoundError:
            raise MissingStateError(f"{path}: a segment of the state is missing") from None
        except pa.ArrowInvalid as error:
            raise CorruptStateError(f"{path}: not an Arrow file: {error}") from error

    def has(self, run: SegmentFile) -> bool:
        """Return whether the file of a run exists with its full length."""
        try:
            return (self.folder / run.file).stat().st_size == run.bytes
        except FileNotFoundError:
            return False

    def read(self, file: str) -> bytes:
        """Return all bytes of a run; raises FileNotFoundError."""
        return (self.folder / file).read_bytes()

    def write(self, number: int, name: str, batch: pa.RecordBatch) -> tuple[SegmentFile, pa.RecordBatch]:
        """Write a run of round `number`; returns it, and the batch to use from now on, memory-mapped if it is large.

        Raises `DiskFullError` if no place has enough space.
        """

        def write(temporary: Path) -> str:
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            with pa.memory_map(str(temporary)) as written:
                return f"{number}-{name}-{xxhash.xxh3_128_hexdigest(written.read_buffer())}.arrow"

        file = self._write_file(batch.nbytes, write)
        run = SegmentFile(file, batch.num_rows, (self.folder / file).stat().st_size)
        return run, self.open(run) if run.bytes >= _MAPPED_BYTES else batch

    def put(self, file: str, content: bytes) -> None:
        """Write the bytes of a run if it does not exist; raises as `write` does."""

        def write(temporary: Path) -> str:
            temporary.write_bytes(content)
            return file

        if not (self.folder / file).exists():
            self._write_file(len(content), write)

    def prune(self, referenced: Collection[str], before: float) -> None:
        """Remove the runs of rounds before `before` that are not in `referenced`, except temporary files."""
        for folder in self._folders:
            for path in folder.glob("*.arrow"):
                if path.name not in referenced and int(path.name.partition("-")[0]) < before:
                    if path.is_symlink():
                        path.readlink().unlink(missing_ok=True)
                    path.unlink(missing_ok=True)

    def vacuum(self, referenced: Collection[str]) -> None:
        """Remove all files that are not in `referenced`, and temporary files; no process may be writing here."""
        for folder in self._folders:
            remove_temporary_files(folder)
        self.prune(referenced, math.inf)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return (self.folder, *([self._spill.folder] if self._spill else ()))

    def _write_file(self, size: int, write: Callable[[Path], str]) -> str:
        """Write a file of about `size` bytes with `write`, in the first folder with enough space; returns its name."""
        errors = []
        for folder in self._candidate_folders(size):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with atomic_file(folder) as temporary:
                    file = write(temporary)
                    if not (self.folder / file).exists():
                        temporary.replace(folder / file)
                        self._link(folder / file)
                    return file
            except DiskFullError as error:
                errors.append(str(error))
        raise DiskFullError(f"no space for a segment of {size:,} bytes of a unit's state: {'; '.join(errors)}")

    def _candidate_folders(self, size: int) -> tuple[Path, ...]:
        """Return the folders to try, the preferred one first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._spill is None:
            return (self.folder,)
        memory = os.statvfs(self.folder)
        free_bytes = memory.f_bavail * memory.f_frsize - size
        if size >= self._spill.min_bytes or free_bytes < memory.f_blocks * memory.f_frsize * _RESERVED_SHARE:
            return (self._spill.folder, self.folder)
        return (self.folder, self._spill.folder)

    def _link(self, path: Path) -> None:
        """Link to a file that is stored in another folder."""
        if path.parent != self.folder:
            with atomic_file(self.folder) as temporary:
                temporary.symlink_to(path.absolute())
                temporary.replace(self.folder / path.name)
