"""Savepoints of jobs: datasets that contain the states of all stages, made while a job runs, for a later rewind.

A savepoint is the newest generation of `streams/JOB/savepoints/NAME`: for each unit its manifest and its runs, named
`STAGE.UNIT.file`. No operation can recompute it, so under Async&Sync it is in the under-store before it is committed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import xxhash

from springline.persistence.model.dataset import Dataset, OperationResult, Origin, Phase, Strategy
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_alternatives
from springline.spark_jobs.streaming.checkpoints.files import read_files, write_files
from springline.spark_jobs.streaming.errors import MissingStateError, UnknownSavepointError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.driver.savepoints import Savepoint, StageSavepoint, pack_savepoint
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot

_DRAIN_SECONDS = 20.0  # seconds until the stages must be drained
_POLL_SECONDS = 0.05


class Savepoints:
    """The savepoints of one job in a platform."""

    def __init__(self, platform: Platform, job: str) -> None:
        self._platform = platform
        self._job = job
        self._prefix = f"streams/{job}/savepoints/"

    def all(self) -> dict[str, Dataset]:
        """Return the existing savepoints by name, oldest first."""
        datasets = self._platform.catalog.find(prefix=self._prefix, phase=Phase.COMMITTED, superseded=False)
        by_age = sorted(datasets, key=lambda dataset: (dataset.committed_at or 0, dataset.ref.path))
        return {dataset.ref.path.removeprefix(self._prefix): dataset for dataset in by_age}

    def save(self, name: str, savepoint: Savepoint) -> Dataset:
        """Save a savepoint under a name, replacing one of the same name; raises `PersistenceError`."""
        packed = {(stage, unit): each for stage, part in savepoint.items() for unit, each in part.units.items()}
        files = {
            f"{stage}.{unit}.{file}": content
            for (stage, unit), each in packed.items()
            for file, content in each.files.items()
        }
        digest = xxhash.xxh3_128_hexdigest("".join(each.digest for each in packed.values()).encode())
        report = {"round_ids": {stage: list(part.round_id) for stage, part in savepoint.items()}}
        written = OperationResult(sum(each.rows for each in packed.values()), digest, 0.0, report)
        origin = Origin(f"stream_{self._job}", task_id="savepoint")
        return write_files(
            self._platform, f"{self._prefix}{name}", files, written, origin, strategy=Strategy.ASYNC_AND_SYNC
        )

    def load(self, name: str) -> Savepoint:
        """Load a savepoint; raises `UnknownSavepointError`, which lists the existing ones, and `PersistenceError`."""
        datasets = self.all()
        if name not in datasets:
            raise UnknownSavepointError(
                f"{self._job}: no savepoint {name!r}; there are: {format_alternatives(name, datasets)}"
            )
        files: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
        for file, content in read_files(self._platform, datasets[name]).items():
            stage, unit, rest = file.split(".", 2)
            files[stage, int(unit)][rest] = content
        return {
            stage: StageSavepoint(
                round_id,
                {
                    unit: PackedSnapshot.unpack_files(unit_files)
                    for (owner, unit), unit_files in sorted(files.items())
                    if owner == stage
                },
            )
            for stage, round_id in round_ids_of(datasets[name]).items()
        }


def round_ids_of(savepoint: Dataset) -> dict[str, RoundId]:
    """Return the round of each stage after which a savepoint was made."""
    round_ids: dict[str, list[int]] = (savepoint.report or {})["round_ids"]  # type: ignore[assignment]
    return {stage: (incarnation, number) for stage, (incarnation, number) in round_ids.items()}


def make_requested(folder: JobFolder, stages: Sequence[Stage], log: MessageLog, savepoints: Savepoints) -> None:
    """Make the requested savepoint, if any, and record its outcome; the first stage is paused meanwhile."""
    name = folder.requested_savepoint()
    if name is None:
        return
    folder.hold_file.touch()
    try:
        savepoint = _await_drained(stages, log)
    finally:
        folder.hold_file.unlink(missing_ok=True)
    if savepoint is None:
        folder.finish_savepoint(
            name, f"the stages did not drain within {_DRAIN_SECONDS:g} s: the job lags behind its source"
        )
        return
    savepoints.save(name, savepoint)
    folder.finish_savepoint(name)


def _await_drained(stages: Sequence[Stage], log: MessageLog) -> Savepoint | None:
    until = time.monotonic() + _DRAIN_SECONDS
    while time.monotonic() < until:
        with suppress(MissingStateError, FileNotFoundError):  # the stages have completed rounds while they were packed
            if (savepoint := pack_savepoint(stages, log)) is not None:
                return savepoint
        time.sleep(_POLL_SECONDS)
    return None
