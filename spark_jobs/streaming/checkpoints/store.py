"""States of units as datasets: saved at intervals, persisted like any other, put back where they were lost.

A saved state is a generation of `streams/JOB/STAGE/UNIT`: the runs of one version, its manifest, and in its report the
round and the offset up to which the unit's log is not needed for it any more. No operation makes it, so under
Async&Sync it is in the under-store before it counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from springline.persistence.errors import PersistenceError
from springline.persistence.model.dataset import Dataset, Origin, Phase, Strategy, Written
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.checkpoints.files import read_files, write_files
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import Packed

_TRIES = 3  # a version may be pruned while it is copied


@dataclass(frozen=True, slots=True)
class Saved:
    """A state that was saved: after which round, and the first offset of its log that comes after it.

    `needs` has from which offset on it may still read each unit of what its stage tells, where that is known.
    """

    order: tuple[int, int]
    offset: int
    persisted: bool
    needs: Mapping[int, int] = field(default_factory=dict)


class SavedStates:
    """The saved states of jobs in one platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def save(self, stage: Stage, unit: int) -> Dataset | None:
        """Save a unit's newest state; None if there is none, or it was saved before. Raises `PersistenceError`."""
        for _ in range(_TRIES):
            newest = stage.versions(unit).newest()
            if newest is None or any(saved.order >= newest for saved, _ in self._saved(stage, unit)):
                return None
            with suppress(MissingStateError, FileNotFoundError):
                return self._save(stage, unit, newest)
        return None

    def fetch(self, stage: Stage, unit: int, until: tuple[int, int]) -> tuple[int, int] | None:
        """Put the newest state back that was saved not after the round `until`; returns its round, or None."""
        versions = stage.versions(unit)
        for saved, dataset in self._saved(stage, unit):
            if saved.order > until:
                continue
            with suppress(PersistenceError):  # lost for good: an older one may be there
                versions.unpack(*saved.order, Packed.of(read_files(self._platform, dataset)))
                return saved.order
        return None

    def newest(self, stage: Stage, unit: int) -> tuple[int, int] | None:
        """The round of the newest state that was saved; None if there is none."""
        return max((saved.order for saved, _ in self._saved(stage, unit)), default=None)

    def needed_from(self, stage: Stage, units: Iterable[int]) -> dict[int, Saved]:
        """The newest persisted state of each unit: what its log holds before that is not needed any more."""
        found = {}
        for unit in units:
            persisted = [saved for saved, _ in self._saved(stage, unit) if saved.persisted]
            if persisted:
                found[unit] = max(persisted, key=lambda saved: saved.order)
        return found

    def _save(self, stage: Stage, unit: int, order: tuple[int, int]) -> Dataset:
        version = stage.versions(unit).packed(*order)
        notes = version.notes
        report = {
            "incarnation": order[0],
            "round": order[1],
            "offset": notes["offset"],
            "needs": notes.get("needs", {}),
        }
        origin = Origin(f"stream_{stage.job}", task_id=f"{stage.name}-{unit}")
        written = Written(version.rows, version.digest, 0.0, report)
        return write_files(
            self._platform, _path(stage, unit), version.files, written, origin, strategy=Strategy.ASYNC_AND_SYNC
        )

    def _saved(self, stage: Stage, unit: int) -> Iterator[tuple[Saved, Dataset]]:
        """What was saved of a unit, the newest first."""
        for dataset in self._platform.catalog.find(path=_path(stage, unit), phase=Phase.COMMITTED, limit=20):
            told = dataset.report or {}
            order = (int(str(told["incarnation"])), int(str(told["round"])))
            needs = {int(unit): int(offset) for unit, offset in dict(told.get("needs", {})).items()}  # type: ignore[call-overload]
            yield Saved(order, int(str(told["offset"])), dataset.persisted, needs), dataset


def told_needed_from(states: Collection[Saved]) -> dict[int, int]:
    """By unit of what a stage tells: the first offset that some of these states of all its units may still read."""
    units = {unit for saved in states for unit in saved.needs}
    return {unit: min(saved.needs.get(unit, 0) for saved in states) for unit in sorted(units)}


def _path(stage: Stage, unit: int) -> str:
    return f"streams/{stage.job}/{stage.name}/{unit}"
