"""States of units as datasets: saved at intervals, persisted like other datasets, restored if they are lost.

A saved state is a generation of `streams/JOB/STAGE/UNIT`: the runs of one version, its manifest, and in its report the
round and the offset before which the unit's log is no longer needed for it. No operation can recompute it, so under
Async&Sync it is in the under-store before it is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from springline.persistence.errors import PersistenceError
from springline.persistence.model.dataset import Dataset, OperationResult, Origin, Phase, Strategy
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.files import read_files, write_files
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot

_MAX_ATTEMPTS = 3  # a version may be pruned while it is copied


@dataclass(frozen=True, slots=True)
class UnitCheckpoint:
    """A saved state: its round, and the first offset of the unit's log after it.

    `feedback_needed_from` is, if known, the first offset per unit of the stage's feedback that it may still read.
    """

    round_id: tuple[int, int]
    offset: int
    persisted: bool
    feedback_needed_from: Mapping[int, int] = field(default_factory=dict)


class CheckpointStore:
    """The saved states of jobs in one platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def save(self, stage: Stage, unit: int) -> Dataset | None:
        """Save a unit's newest state; None if there is none, or it was saved before. Raises `PersistenceError`."""
        for _ in range(_MAX_ATTEMPTS):
            newest = stage.state_store(unit).newest()
            if newest is None or any(checkpoint.round_id >= newest for checkpoint, _ in self._checkpoints(stage, unit)):
                return None
            with suppress(MissingStateError, FileNotFoundError):
                return self._save(stage, unit, newest)
        return None

    def fetch(self, stage: Stage, unit: int, until: tuple[int, int]) -> tuple[int, int] | None:
        """Restore the newest saved state that is not after the round `until`; returns its round, or None."""
        store = stage.state_store(unit)
        for checkpoint, dataset in self._checkpoints(stage, unit):
            if checkpoint.round_id > until:
                continue
            with suppress(PersistenceError):  # lost permanently: an older one may exist
                store.unpack(*checkpoint.round_id, PackedSnapshot.unpack_files(read_files(self._platform, dataset)))
                return checkpoint.round_id
        return None

    def newest(self, stage: Stage, unit: int) -> tuple[int, int] | None:
        """Return the round of the newest saved state; None if there is none."""
        return max((checkpoint.round_id for checkpoint, _ in self._checkpoints(stage, unit)), default=None)

    def needed_from(self, stage: Stage, units: Iterable[int]) -> dict[int, UnitCheckpoint]:
        """Return the newest persisted state of each unit: offsets of its log before that are no longer needed."""
        checkpoints = {}
        for unit in units:
            persisted = [saved for saved, _ in self._checkpoints(stage, unit) if saved.persisted]
            if persisted:
                checkpoints[unit] = max(persisted, key=lambda checkpoint: checkpoint.round_id)
        return checkpoints

    def _save(self, stage: Stage, unit: int, round_id: tuple[int, int]) -> Dataset:
        snapshot = stage.state_store(unit).pack(*round_id)
        notes = snapshot.notes
        report = {
            "incarnation": round_id[0],
            "round": round_id[1],
            "offset": notes["offset"],
            "needs": notes.get("needs", {}),
        }
        origin = Origin(f"stream_{stage.job}", task_id=f"{stage.name}-{unit}")
        written = OperationResult(snapshot.rows, snapshot.digest, 0.0, report)
        return write_files(
            self._platform, _path(stage, unit), snapshot.files, written, origin, strategy=Strategy.ASYNC_AND_SYNC
        )

    def _checkpoints(self, stage: Stage, unit: int) -> Iterator[tuple[UnitCheckpoint, Dataset]]:
        """Yield the saved states of a unit, newest first."""
        for dataset in self._platform.catalog.find(path=_path(stage, unit), phase=Phase.COMMITTED, limit=20):
            report = dataset.report or {}
            round_id = (int(str(report["incarnation"])), int(str(report["round"])))
            needs = {int(unit): int(offset) for unit, offset in dict(report.get("needs", {})).items()}  # type: ignore[call-overload]
            yield UnitCheckpoint(round_id, int(str(report["offset"])), dataset.persisted, needs), dataset


def feedback_needed_by(checkpoints: Collection[UnitCheckpoint]) -> dict[int, int]:
    """Return, per unit of a stage's feedback, the first offset that any of these states may still read."""
    units = {unit for checkpoint in checkpoints for unit in checkpoint.feedback_needed_from}
    return {unit: min(saved.feedback_needed_from.get(unit, 0) for saved in checkpoints) for unit in sorted(units)}


def _path(stage: Stage, unit: int) -> str:
    return f"streams/{stage.job}/{stage.name}/{unit}"
