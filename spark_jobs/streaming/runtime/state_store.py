"""Versions of a unit's state: one manifest per round, which names immutable Arrow runs; the first manifest of a round
wins.

    FOLDER/<incarnation>/<round>.json          its manifest: scalars, notes, and by name its runs
    FOLDER/runs/…                              the runs (`segment_files`)

Files are written to a temporary name and renamed. A step is deterministic, so running a round again writes the same
bytes under the same names: retries, zombies and replays do no harm. A missing version is an error, never an empty
state.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import CorruptStateError, MissingStateError, NondeterminismError
from springline.spark_jobs.streaming.runtime.atomic_files import atomic_file, remove_temporary_files
from springline.spark_jobs.streaming.runtime.segment_files import SegmentFile, SegmentFiles, SpillFolder
from springline.spark_jobs.streaming.runtime.step import State

MANIFEST = "manifest.json"  # of a version that is stored elsewhere
_RUNS = "runs"


@dataclass(frozen=True, slots=True)
class _SnapshotManifest:
    """The manifest of a version; runs by name."""

    scalars: dict[str, Any]
    notes: dict[str, Any]
    runs: dict[str, tuple[SegmentFile, ...]]

    @property
    def all_runs(self) -> tuple[SegmentFile, ...]:
        """All runs."""
        return tuple(run for runs in self.runs.values() for run in runs)

    @staticmethod
    def read(content: bytes, where: str) -> _SnapshotManifest:
        """Decode a manifest; raises `CorruptStateError`, which names `where`."""
        try:
            return _MANIFESTS.decode(content, where)
        except DecodeError as error:
            raise CorruptStateError(str(error)) from error


_MANIFESTS: Codec[_SnapshotManifest] = Codec(  # sorted, so that repeating a round writes the same bytes
    _SnapshotManifest, 2, "the manifest of a version of a unit's state",
    "run the job with the version that wrote it, or reset the job", sort_keys=True,
)  # fmt: skip


@dataclass(frozen=True)
class StateSnapshot:
    """The state of a unit after a round, and its files; round 0 is the initial state, without files.

    `notes` are what the runtime records in addition to the step's state, as JSON values. `state` has the batches as
    they are stored, of which large ones are memory-mapped; `step_runs` has those that the step returned, which a later
    step may return again before it has seen the stored ones.
    """

    incarnation: int
    round: int
    state: State = field(default_factory=State)
    runs: Mapping[str, tuple[SegmentFile, ...]] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    step_runs: Mapping[str, tuple[pa.RecordBatch, ...]] = field(default_factory=dict)

    @property
    def round_id(self) -> tuple[int, int]:
        """Incarnation and round; later rounds compare greater."""
        return (self.incarnation, self.round)

    def stored(self, state: State) -> State:
        """Return `state` with each batch that is one of `step_runs` replaced by the stored one."""
        stored = {
            id(original): batch
            for name, batches in self.step_runs.items()
            for original, batch in zip(batches, self.state.runs[name], strict=True)
            if original is not batch
        }
        if not stored:
            return state
        runs = {name: tuple(stored.get(id(batch), batch) for batch in batches) for name, batches in state.runs.items()}
        return State(state.scalars, runs)

    @property
    def files(self) -> frozenset[str]:
        """The names of all run files."""
        return frozenset(run.file for runs in self.runs.values() for run in runs)

    @property
    def bytes(self) -> int:
        """Bytes of all runs."""
        return sum(run.bytes for runs in self.runs.values() for run in runs)


def as_loaded(round_id: tuple[int, int], state: State, notes: Mapping[str, Any]) -> StateSnapshot:
    """Return a state that is not written yet, with scalars and notes as they would be read from its manifest."""
    content = _MANIFESTS.encode(_SnapshotManifest(dict(state.scalars), dict(notes), {}))
    manifest = _MANIFESTS.decode(content, f"the state after round {round_id[1]}")
    return StateSnapshot(*round_id, State(manifest.scalars, state.runs), notes=manifest.notes)


def next_offsets(notes: Mapping[str, Any]) -> dict[int, int]:
    """Return the next offset to read of each partition of a unit, from the notes of its state."""
    return {int(partition): int(offset) for partition, offset in notes["offsets"].items()}


@dataclass(frozen=True)
class PackedSnapshot:
    """A version as bytes, for storage elsewhere: its manifest, and its runs by file name."""

    manifest: bytes
    runs: Mapping[str, bytes]
    notes: Mapping[str, Any]
    rows: int

    @staticmethod
    def unpack_files(files: Mapping[str, bytes]) -> PackedSnapshot:
        """Build a packed version from files, the inverse of `files`; raises `CorruptStateError`."""
        manifest = _SnapshotManifest.read(files[MANIFEST], MANIFEST)
        rows = sum(run.rows for run in manifest.all_runs)
        return PackedSnapshot(files[MANIFEST], {n: c for n, c in files.items() if n != MANIFEST}, manifest.notes, rows)

    def state(self) -> State:
        """Return the state; raises `CorruptStateError`."""
        manifest = _SnapshotManifest.read(self.manifest, MANIFEST)
        try:
            batches = {
                name: tuple(pa.ipc.open_file(self.runs[run.file]).get_batch(0) for run in runs)
                for name, runs in manifest.runs.items()
            }
        except (KeyError, pa.ArrowInvalid) as error:
            raise CorruptStateError(f"a saved state cannot be read: {error}") from error
        return State(manifest.scalars, batches)

    @property
    def files(self) -> dict[str, bytes]:
        """All files, by name."""
        return {**self.runs, MANIFEST: self.manifest}

    @property
    def digest(self) -> str:
        """Digest of the state, equal for equal states, since the names of runs contain the hashes of their contents."""
        return xxhash.xxh3_128_hexdigest(self.manifest)


class StateStore:
    """The versions of one unit's state in `folder`; `spill` determines which runs are on disk."""

    def __init__(self, folder: Path, spill: SpillFolder | None = None) -> None:
        self.folder = folder
        self._runs = SegmentFiles(folder / _RUNS, spill)

    def load(self, incarnation: int, number: int) -> StateSnapshot:
        """Return the version after round `number`.

        Raises `MissingStateError`, or `CorruptStateError` if a file is incomplete.
        """
        if number == 0:
            return StateSnapshot(incarnation, 0)
        manifest = self._manifest(incarnation, number)
        batches = {name: tuple(self._runs.open(run) for run in runs) for name, runs in manifest.runs.items()}
        return StateSnapshot(incarnation, number, State(manifest.scalars, batches), manifest.runs, manifest.notes)

    def notes(self, incarnation: int, number: int) -> Mapping[str, Any] | None:
        """Return the notes of the version after a round; None if there is no such version."""
        try:
            return self._manifest(incarnation, number).notes
        except MissingStateError:
            return None

    def is_complete(self, incarnation: int, number: int) -> bool:
        """Return whether the version after a round exists with all its runs."""
        if number == 0:
            return True
        try:
            manifest = self._manifest(incarnation, number)
        except MissingStateError:
            return False
        return all(self._runs.has(run) for run in manifest.all_runs)

    def save(
        self, previous: StateSnapshot, state: State, round_id: tuple[int, int], notes: Mapping[str, Any] | None = None
    ) -> StateSnapshot:
        """Write the version after the round `round_id`, which follows `previous`; unchanged runs are not written again.

        The returned snapshot has large runs memory-mapped. Raises `NondeterminismError` if this round was already
        written with a different result, `DiskFullError` if there is no space.
        """
        incarnation, number = round_id
        reusable = {
            id(same): (run, batch)
            for name, runs in previous.runs.items()
            for original, batch, run in zip(
                previous.step_runs.get(name) or previous.state.runs[name], previous.state.runs[name], runs, strict=True
            )
            for same in (original, batch)
        }
        segments = {
            name: [reusable.get(id(batch)) or self._runs.write(number, name, batch) for batch in batches]
            for name, batches in sorted(state.runs.items())
        }
        runs = {name: tuple(run for run, _ in each) for name, each in segments.items()}
        batches = {name: tuple(batch for _, batch in each) for name, each in segments.items()}
        content = _MANIFESTS.encode(_SnapshotManifest(dict(state.scalars), dict(notes or {}), runs))
        self._publish(incarnation, number, content)
        as_loaded = _MANIFESTS.decode(content, str(self._path(incarnation, number)))
        step_runs = {name: tuple(state.runs[name]) for name in runs}
        return StateSnapshot(incarnation, number, State(as_loaded.scalars, batches), runs, as_loaded.notes, step_runs)

    def rounds(self, incarnation: int) -> tuple[int, ...]:
        """Return the rounds that have a version, ascending."""
        folder = self.folder / str(incarnation)
        stems = (path.stem for path in folder.glob("*.json")) if folder.is_dir() else ()
        return tuple(sorted(int(stem) for stem in stems))

    def newest(self) -> tuple[int, int] | None:
        """Return the incarnation and round of the newest version; None if there is none."""
        for folder in sorted(self._incarnations(), key=lambda folder: int(folder.name), reverse=True):
            if rounds := self.rounds(int(folder.name)):
                return int(folder.name), rounds[-1]
        return None

    def drop_incomplete(self) -> tuple[int, int] | None:
        """Remove the newest versions of which runs are missing; return the newest that is left, None if there is none.

        Part of a memory may be lost, and a later version than the newest complete one would be taken for its successor.
        """
        while (newest := self.newest()) is not None and not self.is_complete(*newest):
            self._path(*newest).unlink(missing_ok=True)
        return newest

    def pack(self, incarnation: int, number: int) -> PackedSnapshot:
        """Return a version as bytes; raises `MissingStateError`, or FileNotFoundError if it is pruned concurrently."""
        manifest = self._manifest(incarnation, number)
        runs = {run.file: self._runs.read(run.file) for run in manifest.all_runs}
        content = self._path(incarnation, number).read_bytes()
        return PackedSnapshot(content, runs, manifest.notes, sum(run.rows for run in manifest.all_runs))

    def unpack(self, incarnation: int, number: int, packed: PackedSnapshot) -> None:
        """Restore a packed version; raises `NondeterminismError` if a different one exists, and `DiskFullError`."""
        for name, content in packed.runs.items():
            self._runs.put(name, content)
        self._publish(incarnation, number, packed.manifest)

    def prune(self, retained: Collection[tuple[int, int]], *, before: tuple[int, int]) -> int:
        """Remove the versions before (incarnation, round) that are not in `retained`, and runs that no version
        references.

        Returns the number of removed versions.
        """
        removed = 0
        referenced: set[str] = set()
        for folder in self._incarnations():
            for number in self.rounds(int(folder.name)):
                round_id = (int(folder.name), number)
                if round_id >= before or round_id in retained:
                    referenced |= self._files_of(*round_id)
                else:
                    (folder / f"{number}.json").unlink(missing_ok=True)
                    removed += 1
        self._runs.prune(referenced, before[1])
        return removed

    def vacuum(self) -> None:
        """Remove leftovers of a killed process: temporary files, unreferenced runs; no process may be writing here."""
        remove_temporary_files(self.folder)
        incarnations = [int(folder.name) for folder in self._incarnations()]
        round_ids = [(incarnation, number) for incarnation in incarnations for number in self.rounds(incarnation)]
        self._runs.vacuum({file for round_id in round_ids for file in self._files_of(*round_id)})

    def _incarnations(self) -> Iterable[Path]:
        if not self.folder.is_dir():
            return ()
        return sorted(path for path in self.folder.iterdir() if path.name.isdigit())

    def _files_of(self, incarnation: int, number: int) -> set[str]:
        return {run.file for run in self._manifest(incarnation, number).all_runs}

    def _path(self, incarnation: int, number: int) -> Path:
        return self.folder / str(incarnation) / f"{number}.json"

    def _manifest(self, incarnation: int, number: int) -> _SnapshotManifest:
        path = self._path(incarnation, number)
        try:
            return _SnapshotManifest.read(path.read_bytes(), str(path))
        except FileNotFoundError:
            raise MissingStateError(f"{path}: the state after round {number} is missing") from None

    def _publish(self, incarnation: int, number: int, content: bytes) -> None:
        target = self._path(incarnation, number)
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(target.parent) as temporary:
            temporary.write_bytes(content)
            try:
                os.link(temporary, target)  # unlike a rename, this fails if the file exists
            except FileExistsError:
                if target.read_bytes() != content:
                    raise NondeterminismError(
                        f"{target}: a re-run of round {number} on the same messages gave another result: "
                        "its step depends on something outside its input"
                    ) from None
