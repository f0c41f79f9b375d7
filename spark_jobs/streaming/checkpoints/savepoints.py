"""Savepoints of jobs: datasets that hold the states of all stages, made while a job runs, and gone back to.

A savepoint is the newest generation of `streams/JOB/savepoints/NAME`: for each unit its manifest and its runs, named
`STAGE.UNIT.file`. No operation makes it, so under Async&Sync it is in the under-store before it counts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import xxhash

from springline.persistence.model.dataset import Dataset, Origin, Phase, Strategy, Written
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import say_known
from springline.spark_jobs.streaming.checkpoints.files import read_files, write_files
from springline.spark_jobs.streaming.errors import MissingStateError, UnknownSavepointError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.driver.savepoints import Part, Savepoint, pack
from springline.spark_jobs.streaming.runtime.message_log import Log, Order
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import Packed

_PATIENCE = 20.0  # seconds until the stages are level
_LOOK_SECONDS = 0.05


class Savepoints:
    """The savepoints of one job in a platform."""

    def __init__(self, platform: Platform, job: str) -> None:
        self._platform = platform
        self._job = job
        self._prefix = f"streams/{job}/savepoints/"

    def all(self) -> dict[str, Dataset]:
        """The savepoints that are there, by name, the oldest first."""
        found = self._platform.catalog.find(prefix=self._prefix, phase=Phase.COMMITTED, superseded=False)
        by_age = sorted(found, key=lambda dataset: (dataset.committed_at or 0, dataset.ref.path))
        return {dataset.ref.path.removeprefix(self._prefix): dataset for dataset in by_age}

    def save(self, name: str, savepoint: Savepoint) -> Dataset:
        """Keep a savepoint under a name, in place of one that had it; raises `PersistenceError`."""
        packed = {(stage, unit): each for stage, part in savepoint.items() for unit, each in part.units.items()}
        files = {
            f"{stage}.{unit}.{file}": content
            for (stage, unit), each in packed.items()
            for file, content in each.files.items()
        }
        digest = xxhash.xxh3_128_hexdigest("".join(each.digest for each in packed.values()).encode())
        report = {"orders": {stage: list(part.order) for stage, part in savepoint.items()}}
        written = Written(sum(each.rows for each in packed.values()), digest, 0.0, report)
        origin = Origin(f"stream_{self._job}", task_id="savepoint")
        return write_files(
            self._platform, f"{self._prefix}{name}", files, written, origin, strategy=Strategy.ASYNC_AND_SYNC
        )

    def load(self, name: str) -> Savepoint:
        """A savepoint; raises `UnknownSavepointError`, which names those that are there, and `PersistenceError`."""
        there = self.all()
        if name not in there:
            raise UnknownSavepointError(f"{self._job}: no savepoint {name!r}; there are: {say_known(name, there)}")
        files: dict[tuple[str, int], dict[str, bytes]] = defaultdict(dict)
        for file, content in read_files(self._platform, there[name]).items():
            stage, unit, rest = file.split(".", 2)
            files[stage, int(unit)][rest] = content
        return {
            stage: Part(order, {unit: Packed.of(found) for (of, unit), found in sorted(files.items()) if of == stage})
            for stage, order in orders_of(there[name]).items()
        }


def orders_of(savepoint: Dataset) -> dict[str, Order]:
    """After which round of each stage a savepoint is."""
    told: dict[str, list[int]] = (savepoint.report or {})["orders"]  # type: ignore[assignment]
    return {stage: (incarnation, number) for stage, (incarnation, number) in told.items()}


def make_asked(folder: JobFolder, stages: Sequence[Stage], log: Log, savepoints: Savepoints) -> None:
    """Make the savepoint that somebody has asked for, if any, and answer; the first stage waits meanwhile."""
    name = folder.asked_savepoint()
    if name is None:
        return
    folder.hold_file.touch()
    try:
        found = _level(stages, log)
    finally:
        folder.hold_file.unlink(missing_ok=True)
    if found is None:
        folder.answer_savepoint(name, f"the stages were not level within {_PATIENCE:g} s: the job is behind")
        return
    savepoints.save(name, found)
    folder.answer_savepoint(name)


def _level(stages: Sequence[Stage], log: Log) -> Savepoint | None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with suppress(MissingStateError, FileNotFoundError):  # the stages have gone on while they were packed
            if (found := pack(stages, log)) is not None:
                return found
        time.sleep(_LOOK_SECONDS)
    return None
