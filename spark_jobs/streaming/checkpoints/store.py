"""States of units as datasets: saved at intervals, persisted like other datasets, restored if they are lost.

A saved state is a generation of `streams/JOB/STAGE/UNIT`: the runs of one version, its manifest, and in its report the
round and the offsets before which the unit's partitions are no longer needed for it. No operation can recompute it, so
under Async&Sync it is in the under-store before it is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from springline.persistence.errors import PersistenceError
from springline.persistence.model.dataset import Dataset, OperationResult, Origin, Phase, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.files import read_files, write_files
from springline.spark_jobs.streaming.runtime.message_log import RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot, StateStore, next_offsets

_NEWEST = 20  # generations of a unit's dataset among which its newest checkpoint is


@dataclass(frozen=True, slots=True)
class UnitCheckpoint:
    """A saved state: its round, and the first offset of each of the unit's partitions after it.

    `feedback_needed_from` is, if known, the first offset per unit of the stage's feedback that it may still read.
    """

    round_id: RoundId
    offsets: Mapping[int, int]
    persisted: bool
    feedback_needed_from: Mapping[int, int] = field(default_factory=dict)


class CheckpointStore:
    """The saved states of jobs in one platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def save(self, stage: Stage, unit: int, store: StateStore, round_id: RoundId) -> Dataset | None:
        """Save the state of a unit after a round; None if it is saved already.

        Raises `PersistenceError`, `MissingStateError`, or FileNotFoundError if it is pruned concurrently.
        """
        if any(checkpoint.round_id == round_id for checkpoint, _ in self._checkpoints(stage, unit)):
            return None
        return self.save_packed(stage, unit, round_id, store.pack(*round_id))

    def save_packed(self, stage: Stage, unit: int, round_id: RoundId, packed: PackedSnapshot) -> Dataset:
        """Save a state as the one after a round; raises `PersistenceError`."""
        report = {
            "incarnation": round_id[0],
            "round": round_id[1],
            "offsets": packed.notes["offsets"],
            "needs": packed.notes.get("needs", {}),
        }
        origin = Origin(f"stream_{stage.job}", task_id=f"{stage.name}-{unit}")
        written = OperationResult(packed.rows, packed.digest, 0.0, report)
        return write_files(
            self._platform, _path(stage, unit), packed.files, written, origin, strategy=Strategy.ASYNC_AND_SYNC
        )

    def fetch(self, stage: Stage, unit: int, store: StateStore, until: RoundId) -> RoundId | None:
        """Restore the newest saved state that is not after the round `until`; returns its round, or None."""
        for checkpoint, dataset in self._checkpoints(stage, unit):
            if checkpoint.round_id <= until:
                with suppress(PersistenceError):  # lost permanently: an older one may exist
                    store.unpack(*checkpoint.round_id, self._read(dataset))
                    return checkpoint.round_id
        return None

    def load(self, stage: Stage, unit: int, round_id: RoundId | None = None) -> PackedSnapshot | None:
        """Return the saved state after a round, by default the newest; None if there is none.

        Raises `PersistenceError`.
        """
        for checkpoint, dataset in self._checkpoints(stage, unit):
            if round_id in (None, checkpoint.round_id):
                return self._read(dataset)
        return None

    def newest(self, stage: Stage, unit: int) -> RoundId | None:
        """Return the round of the newest saved state; None if there is none."""
        return next((checkpoint.round_id for checkpoint, _ in self._checkpoints(stage, unit)), None)

    def needed_from(self, stage: Stage, units: Iterable[int]) -> dict[int, UnitCheckpoint]:
        """Return the newest persisted state of each unit: offsets before those of it are no longer needed."""
        checkpoints = {}
        for unit in units:
            newest = next((saved for saved, _ in self._checkpoints(stage, unit) if saved.persisted), None)
            if newest is not None:
                checkpoints[unit] = newest
        return checkpoints

    def _checkpoints(self, stage: Stage, unit: int) -> list[tuple[UnitCheckpoint, Dataset]]:
        """Return the saved states of a unit, those of later rounds first."""
        checkpoints = []
        for dataset in self._platform.catalog.find(path=_path(stage, unit), phase=Phase.COMMITTED, limit=_NEWEST):
            report = dataset.report or {}
            round_id = (int(str(report["incarnation"])), int(str(report["round"])))
            needs = {int(unit): int(offset) for unit, offset in dict(report.get("needs", {})).items()}  # type: ignore[call-overload]
            checkpoints.append((UnitCheckpoint(round_id, next_offsets(report), dataset.persisted, needs), dataset))
        return sorted(checkpoints, key=lambda pair: pair[0].round_id, reverse=True)

    def _read(self, dataset: Dataset) -> PackedSnapshot:
        return PackedSnapshot.unpack_files(read_files(self._platform, dataset))


def feedback_needed_by(checkpoints: Collection[UnitCheckpoint]) -> dict[int, int]:
    """Return, per unit of a stage's feedback, the first offset that any of these states may still read."""
    units = {unit for checkpoint in checkpoints for unit in checkpoint.feedback_needed_from}
    return {unit: min(saved.feedback_needed_from.get(unit, 0) for saved in checkpoints) for unit in sorted(units)}


def _path(stage: Stage, unit: int) -> str:
    return f"streams/{stage.job}/{stage.name}/{unit}"
