"""Versions of a unit's state: a manifest a round, naming immutable Arrow runs; the first manifest of a round wins.

    FOLDER/<incarnation>/<round>.json          its manifest: scalars, notes, and by name its runs
    FOLDER/runs/…                              the runs (`run_files`)

Files are written to a temporary name and renamed. A step is deterministic, so whoever runs a round again writes the
same bytes under the same names: attempts, zombies and replays disturb nobody. A version that is missing is an error,
never an empty state.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import CorruptStateError, MissingStateError, NondeterminismError
from springline.spark_jobs.streaming.runtime.atomic_files import half_in, remove_halves
from springline.spark_jobs.streaming.runtime.segment_files import Run, RunFiles, Spill
from springline.spark_jobs.streaming.runtime.step import State

MANIFEST = "manifest.json"  # of a version that is kept elsewhere
_RUNS = "runs"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What the manifest of a version says; runs by name."""

    scalars: dict[str, Any]
    notes: dict[str, Any]
    runs: dict[str, tuple[Run, ...]]

    @property
    def listed(self) -> tuple[Run, ...]:
        """All runs."""
        return tuple(run for runs in self.runs.values() for run in runs)

    @staticmethod
    def read(content: bytes, where: str) -> _Manifest:
        """What a file says; raises `CorruptStateError`, naming `where` it is."""
        try:
            return _MANIFESTS.decode(content, where)
        except DecodeError as error:
            raise CorruptStateError(str(error)) from error


_MANIFESTS: Codec[_Manifest] = Codec(  # sorted: a round that is run again writes the same bytes
    _Manifest, 1, "the manifest of a version of a unit's state",
    "run the job with the version that wrote it, or reset the job, which then begins anew", sorts=True,
)  # fmt: skip


@dataclass(frozen=True)
class Version:
    """The state of a unit after a round, and the files that it lies in; round 0 is the beginning, without files.

    `notes` are what the unit log itself remembers beside the step's state, as JSON values.
    """

    incarnation: int
    round: int
    state: State = field(default_factory=State)
    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """Incarnation and round: what comes later is greater."""
        return (self.incarnation, self.round)

    @property
    def files(self) -> frozenset[str]:
        """The names of all run files."""
        return frozenset(run.file for runs in self.runs.values() for run in runs)

    @property
    def bytes(self) -> int:
        """Bytes of all runs."""
        return sum(run.bytes for runs in self.runs.values() for run in runs)


@dataclass(frozen=True)
class Packed:
    """A version as bytes, to be kept elsewhere: its manifest, and its runs by file name."""

    manifest: bytes
    runs: Mapping[str, bytes]
    notes: Mapping[str, Any]
    rows: int

    @staticmethod
    def of(files: Mapping[str, bytes]) -> Packed:
        """The inverse of `files`; raises `CorruptStateError`."""
        told = _Manifest.read(files[MANIFEST], MANIFEST)
        rows = sum(run.rows for run in told.listed)
        return Packed(files[MANIFEST], {n: c for n, c in files.items() if n != MANIFEST}, told.notes, rows)

    @property
    def files(self) -> dict[str, bytes]:
        """All of it, by file name."""
        return {**self.runs, MANIFEST: self.manifest}

    @property
    def digest(self) -> str:
        """The same for the same state: the names of runs hold the hashes of their content."""
        return xxhash.xxh3_128_hexdigest(self.manifest)


class Versions:
    """The versions of one unit's state in `folder`; `spill` says which runs lie on disk."""

    def __init__(self, folder: Path, spill: Spill | None = None) -> None:
        self.folder = folder
        self._runs = RunFiles(folder / _RUNS, spill)

    def load(self, incarnation: int, number: int) -> Version:
        """The version after round `number`.

        Raises `MissingStateError`, or `CorruptStateError` where a file is not whole.
        """
        if number == 0:
            return Version(incarnation, 0)
        told = self._manifest(incarnation, number)
        batches = {name: tuple(self._runs.open(run) for run in listed) for name, listed in told.runs.items()}
        return Version(incarnation, number, State(told.scalars, batches), told.runs, told.notes)

    def notes(self, incarnation: int, number: int) -> Mapping[str, Any] | None:
        """The notes of the version after a round; None if there is no such version."""
        try:
            return self._manifest(incarnation, number).notes
        except MissingStateError:
            return None

    def whole(self, incarnation: int, number: int) -> bool:
        """Whether the version after a round is there with all its runs."""
        if number == 0:
            return True
        try:
            told = self._manifest(incarnation, number)
        except MissingStateError:
            return False
        return all(self._runs.has(run) for run in told.listed)

    def written(self, incarnation: int, number: int) -> bool:
        """Whether the version after a round was written; whether it is whole is another question."""
        return number == 0 or self._path(incarnation, number).exists()

    def save(
        self, before: Version, state: State, order: tuple[int, int], notes: Mapping[str, Any] | None = None
    ) -> Version:
        """Write the version after the round `order`, which follows `before`; runs that are kept are not written again.

        The state of what it returns has large runs as they lie in their files. Raises `NondeterminismError` if this
        round was written already and came out otherwise, `DiskFullError` where there is none.
        """
        incarnation, number = order
        kept = {
            id(batch): (run, batch)
            for name, runs in before.runs.items()
            for batch, run in zip(before.state.runs[name], runs, strict=True)
        }
        made = {
            name: [kept.get(id(batch)) or self._runs.write(number, name, batch) for batch in batches]
            for name, batches in sorted(state.runs.items())
        }
        runs = {name: tuple(run for run, _ in each) for name, each in made.items()}
        batches = {name: tuple(batch for _, batch in each) for name, each in made.items()}
        content = _MANIFESTS.encode(_Manifest(dict(state.scalars), dict(notes or {}), runs))
        self._publish(incarnation, number, content)
        as_loaded = _MANIFESTS.decode(content, str(self._path(incarnation, number)))
        return Version(incarnation, number, State(as_loaded.scalars, batches), runs, as_loaded.notes)

    def rounds(self, incarnation: int) -> tuple[int, ...]:
        """The rounds of which there is a version, ascending."""
        folder = self.folder / str(incarnation)
        found = (path.stem for path in folder.glob("*.json")) if folder.is_dir() else ()
        return tuple(sorted(int(stem) for stem in found))

    def newest(self) -> tuple[int, int] | None:
        """The incarnation and round of the newest version; None if there is none."""
        for folder in sorted(self._incarnations(), key=lambda folder: int(folder.name), reverse=True):
            if rounds := self.rounds(int(folder.name)):
                return int(folder.name), rounds[-1]
        return None

    def packed(self, incarnation: int, number: int) -> Packed:
        """A version as bytes; raises `MissingStateError`, or FileNotFoundError where it is pruned meanwhile."""
        told = self._manifest(incarnation, number)
        runs = {run.file: self._runs.read(run.file) for run in told.listed}
        content = self._path(incarnation, number).read_bytes()
        return Packed(content, runs, told.notes, sum(run.rows for run in told.listed))

    def unpack(self, incarnation: int, number: int, packed: Packed) -> None:
        """Put a packed version back; raises `NondeterminismError` if another one is there, and `DiskFullError`."""
        for name, content in packed.runs.items():
            self._runs.put(name, content)
        self._publish(incarnation, number, packed.manifest)

    def prune(self, keep: Collection[tuple[int, int]], *, before: tuple[int, int]) -> int:
        """Remove the versions before (incarnation, round) that are not in `keep`, and runs of no version; how many."""
        removed = 0
        named: set[str] = set()
        for folder in self._incarnations():
            for number in self.rounds(int(folder.name)):
                this = (int(folder.name), number)
                if this >= before or this in keep:
                    named |= self._files_of(*this)
                else:
                    (folder / f"{number}.json").unlink(missing_ok=True)
                    removed += 1
        self._runs.prune(named, before[1])
        return removed

    def tidy(self) -> None:
        """Remove what a process that was killed has left: half files, and runs of no version; nobody may write here."""
        remove_halves(self.folder)
        incarnations = [int(folder.name) for folder in self._incarnations()]
        versions = [(incarnation, number) for incarnation in incarnations for number in self.rounds(incarnation)]
        self._runs.tidy({file for order in versions for file in self._files_of(*order)})

    def _incarnations(self) -> Iterable[Path]:
        if not self.folder.is_dir():
            return ()
        return sorted(path for path in self.folder.iterdir() if path.name.isdigit())

    def _files_of(self, incarnation: int, number: int) -> set[str]:
        return {run.file for run in self._manifest(incarnation, number).listed}

    def _path(self, incarnation: int, number: int) -> Path:
        return self.folder / str(incarnation) / f"{number}.json"

    def _manifest(self, incarnation: int, number: int) -> _Manifest:
        path = self._path(incarnation, number)
        try:
            return _Manifest.read(path.read_bytes(), str(path))
        except FileNotFoundError:
            raise MissingStateError(f"{path}: the state after round {number} is not there") from None

    def _publish(self, incarnation: int, number: int, content: bytes) -> None:
        target = self._path(incarnation, number)
        target.parent.mkdir(parents=True, exist_ok=True)
        with half_in(target.parent) as half:
            half.write_bytes(content)
            try:
                os.link(half, target)  # unlike a rename, this fails where somebody was first
            except FileExistsError:
                if target.read_bytes() != content:
                    raise NondeterminismError(
                        f"{target}: round {number} was run before, on the same messages, and came out otherwise: "
                        "its step looks at something that is not in its input"
                    ) from None
