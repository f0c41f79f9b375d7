"""The files of a unit's runs: in memory beside its versions, or on disk and linked to from there.

    FOLDER/<round>-<name>-<hash>.arrow    one run, or a link to it; the hash (xxh3, 128 bits) is of its content

Whoever reads need not know where a run lies. Large runs are written to disk, and all of them while memory is scarce; a
place that is full sends them to the other one.
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
from springline.spark_jobs.streaming.runtime.atomic_files import half_in, remove_halves

_SPARE = 1 / 16  # of the file system that memory is: left for small files, which have no other place
_MAPPED_BYTES = 1 << 20  # of a run that is looked at in its file from then on, so that it is in memory once


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a version: its file, its rows, the bytes of the file."""

    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Spill:
    """The folder on disk for runs of one unit, and of how many bytes a run is that lies there in any case."""

    folder: Path
    bytes: int


class RunFiles:
    """The runs in `folder`, in memory, and where `spill` says, on disk."""

    def __init__(self, folder: Path, spill: Spill | None = None) -> None:
        self.folder = folder
        self._spill = spill

    def open(self, run: Run) -> pa.RecordBatch:
        """A run, mapped and not read; raises `MissingStateError`, or `CorruptStateError` where it is not whole."""
        path = self.folder / run.file
        try:
            if path.stat().st_size != run.bytes:
                raise CorruptStateError(f"{path}: {path.stat().st_size:,} bytes, and {run.bytes:,} were written")
            with pa.memory_map(str(path)) as source:
                return pa.ipc.open_file(source).get_batch(0)
        except FileNotFoundError:
            raise MissingStateError(f"{path}: a run of the state is not there") from None
        except pa.ArrowInvalid as error:
            raise CorruptStateError(f"{path}: not an Arrow file: {error}") from error

    def has(self, run: Run) -> bool:
        """Whether it is there in its whole length."""
        try:
            return (self.folder / run.file).stat().st_size == run.bytes
        except FileNotFoundError:
            return False

    def read(self, file: str) -> bytes:
        """All bytes of a run; raises FileNotFoundError."""
        return (self.folder / file).read_bytes()

    def write(self, number: int, name: str, batch: pa.RecordBatch) -> tuple[Run, pa.RecordBatch]:
        """Write a run of round `number`: it, and the batch to go on with.

        Raises `DiskFullError` where no place has any.
        """

        def write(half: Path) -> str:
            with pa.OSFile(str(half), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            with pa.memory_map(str(half)) as written:
                return f"{number}-{name}-{xxhash.xxh3_128_hexdigest(written.read_buffer())}.arrow"

        file = self._placed(batch.nbytes, write)
        run = Run(file, batch.num_rows, (self.folder / file).stat().st_size)
        return run, self.open(run) if run.bytes >= _MAPPED_BYTES else batch

    def put(self, file: str, content: bytes) -> None:
        """Write the bytes of a run that is not there; raises as `write` does."""

        def write(half: Path) -> str:
            half.write_bytes(content)
            return file

        if not (self.folder / file).exists():
            self._placed(len(content), write)

    def prune(self, named: Collection[str], before: float) -> None:
        """Remove the runs of rounds before `before` that are not named; one that is being written has no name yet."""
        for folder in self._folders:
            for path in folder.glob("*.arrow"):
                if path.name not in named and int(path.name.partition("-")[0]) < before:
                    if path.is_symlink():
                        path.readlink().unlink(missing_ok=True)
                    path.unlink(missing_ok=True)

    def tidy(self, named: Collection[str]) -> None:
        """Remove all that is not named, half files too; nobody may write here."""
        for folder in self._folders:
            remove_halves(folder)
        self.prune(named, math.inf)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return (self.folder, *([self._spill.folder] if self._spill else ()))

    def _placed(self, size: int, write: Callable[[Path], str]) -> str:
        """The name of a file of about so many bytes, which `write` writes and names, in the first place with room."""
        full = []
        for folder in self._places(size):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with half_in(folder) as half:
                    file = write(half)
                    if not (self.folder / file).exists():
                        half.replace(folder / file)
                        self._link(folder / file)
                    return file
            except DiskFullError as error:
                full.append(str(error))
        raise DiskFullError(f"no room for a run of {size:,} bytes of a unit's state: {'; '.join(full)}")

    def _places(self, size: int) -> tuple[Path, ...]:
        """Where to try, the better place first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._spill is None:
            return (self.folder,)
        memory = os.statvfs(self.folder)
        left = memory.f_bavail * memory.f_frsize - size
        if size >= self._spill.bytes or left < memory.f_blocks * memory.f_frsize * _SPARE:
            return (self._spill.folder, self.folder)
        return (self.folder, self._spill.folder)

    def _link(self, path: Path) -> None:
        """Let a file that lies elsewhere be found."""
        if path.parent != self.folder:
            with half_in(self.folder) as half:
                half.symlink_to(path.absolute())
                half.replace(self.folder / path.name)
