"""Savepoints of jobs: datasets that contain the states of all stages, made while a job runs, for a later rewind.

A savepoint is the newest generation of `streams/JOB/savepoints/NAME`: for each unit its manifest and its runs, named
`STAGE.UNIT.file`. No operation can recompute it, so under Async&Sync it is in the under-store before it is committed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import xxhash

from springline.persistence.model.dataset import Dataset, OperationResult, Origin, Phase, Strategy
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_alternatives
from springline.spark_jobs.streaming.checkpoints.files import read_files, write_files
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.errors import UnknownSavepointError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.driver.drain import find_drained_plans
from springline.spark_jobs.streaming.runtime.driver.savepoints import Savepoint, StageSavepoint
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, RoundId
from springline.spark_jobs.streaming.runtime.report_log import ReportReader
from springline.spark_jobs.streaming.runtime.rounds import RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import PackedSnapshot

_DRAIN_SECONDS = 20.0  # seconds until the stages must be drained
_SAVE_SECONDS = 60.0  # seconds until the tasks must have saved the states
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


def make_requested(
    folder: JobFolder, stages: Sequence[Stage], log: MessageLog, checkpoints: CheckpointStore, savepoints: Savepoints
) -> None:
    """Make the requested savepoint, if any, and record that it is made; raises `UnknownSavepointError` if it cannot be.

    Meanwhile the first stage is paused. Once all are drained, their tasks save the states as checkpoints, of which the
    savepoint is a copy.
    """
    name = folder.requested_savepoint()
    if name is None:
        return
    folder.hold_file.touch()
    try:
        plans = _await_drained(stages, log)
        with folder.requesting_saves({stage: plan.round_id for stage, plan in plans.items()}):
            savepoint = _await_saved(stages, log, plans, checkpoints)
    finally:
        folder.hold_file.unlink(missing_ok=True)
    savepoints.save(name, savepoint)
    folder.finish_savepoint(name)


def _await_drained(stages: Sequence[Stage], log: MessageLog) -> Mapping[str, RoundPlan]:
    """Wait until the stages are drained, and return their rounds; raises `UnknownSavepointError`."""
    until = time.monotonic() + _DRAIN_SECONDS
    while time.monotonic() < until:
        if (plans := find_drained_plans(stages, log)) is not None:
            return plans
        time.sleep(_POLL_SECONDS)
    raise UnknownSavepointError(f"the stages did not drain within {_DRAIN_SECONDS:g} s: the job lags behind its source")


def _await_saved(
    stages: Sequence[Stage], log: MessageLog, plans: Mapping[str, RoundPlan], checkpoints: CheckpointStore
) -> Savepoint:
    """Wait until the states after these rounds are saved, and return them; raises `UnknownSavepointError`."""
    requested_at, until = time.time(), time.monotonic() + _SAVE_SECONDS
    reports = ReportReader(stages, log)
    units: dict[str, dict[int, PackedSnapshot]] = {stage.name: {} for stage in stages}
    missing = [(stage, unit) for stage in stages for unit in sorted(plans[stage.name].ranges)]
    while missing:
        stage, unit = missing[0]
        if (saved := checkpoints.load(stage, unit, plans[stage.name].round_id)) is not None:
            units[stage.name][unit] = saved
            missing.pop(0)
            continue
        report = reports.reports(stage.name).get(unit)
        if report is not None and report.state.checkpoint_error and report.round.ended_at >= requested_at:
            raise UnknownSavepointError(f"{stage.id}[{unit}]: {report.state.checkpoint_error}")
        if time.monotonic() > until:
            raise UnknownSavepointError(f"{stage.id}[{unit}] did not save its state in {_SAVE_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    return {name: StageSavepoint(plans[name].round_id, saved_units) for name, saved_units in units.items()}
