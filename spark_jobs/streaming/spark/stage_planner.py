"""Plans the rounds of a stage in a Python process of Spark's driver."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.backpressure.rate_limit import RateLimiter
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.atomic_files import read_json
from springline.spark_jobs.streaming.runtime.driver.planner import Planner
from springline.spark_jobs.streaming.runtime.driver.task_loop_driver import (
    SaveRequest,
    TaskLoopDriver,
    TaskLoopStart,
)
from springline.spark_jobs.streaming.runtime.history import BroadcastValue
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop
from springline.spark_jobs.streaming.spark.stage_launch import StageLaunch

_POLL_SECONDS = 0.2  # a planner waits that long for work before it reports that there is none


class StagePlanner:
    """Plans the rounds of a stage; rounds are encoded as JSON."""

    def __init__(self, launch: StageLaunch) -> None:
        stage, folder = launch.stage, JobFolder(Path(launch.folder))
        watcher = _FileWatcher(stage, folder.path)
        self.tasks = launch.tasks
        self._planner = Planner(
            stage, Kafka(launch.cluster), time.time, watcher.broadcast_values, latest=launch.latest,
            admission_limit=RateLimiter(stage, folder.path),
            round_bytes=launch.round_bytes * min(launch.tasks, stage.units),
        )  # fmt: skip
        self._task_loops = TaskLoopDriver(
            self._planner, watcher.is_paused, launch.seconds, partial(_save_request, folder, stage)
        )

    def begin(self) -> dict[str, Any]:
        """Return the round to continue after."""
        return _offset(TaskLoopStart(self._planner.begin()))

    def first(self) -> dict[str, Any] | None:
        """Return how the next task loop begins; None if there is currently nothing to do."""
        first = self._task_loops.first(_POLL_SECONDS)
        return None if first is None else _offset(first)

    def task_loop(self, first: dict[str, Any]) -> TaskLoop:
        """Return the task loop that begins so."""
        return self._task_loops.begin(from_json_value(TaskLoopStart, first, "the offset of a Spark query"))


def _offset(start: TaskLoopStart) -> dict[str, Any]:
    """Encode the start of a task loop as an offset of Spark."""
    offset: dict[str, Any] = to_json_value(start)
    return offset


def _save_request(folder: JobFolder, stage: Stage) -> SaveRequest | None:
    """Return what the application asks to be saved: the round of a savepoint, or before its end the newest one."""
    if (requested := folder.requested_saves()) is not None and stage.name in requested:
        return SaveRequest(requested[stage.name])
    return SaveRequest() if stage.checkpoint_interval and folder.stop_file.exists() else None


class _FileWatcher:
    """Watches the files of a stage in the job's folder: it reads those again that were replaced, and nothing is planned
    while one that holds the stage exists.
    """

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._paths = {name: folder / file for name, file in stage.broadcast_files.items()}
        self._hold_files = [folder / hold for hold in stage.hold_files]
        self._cached: dict[str, tuple[tuple[int, int], BroadcastValue]] = {}

    def broadcast_values(self) -> dict[str, BroadcastValue]:
        """Return the current values of the broadcast files."""
        return {name: self._broadcast_value(name, path) for name, path in self._paths.items()}

    def is_paused(self) -> bool:
        """Return whether planning is paused."""
        return any(hold.exists() for hold in self._hold_files)

    def _broadcast_value(self, name: str, path: Path) -> BroadcastValue:
        status = path.stat()
        signature = (status.st_ino, status.st_mtime_ns)
        if name not in self._cached or self._cached[name][0] != signature:
            self._cached[name] = (signature, BroadcastValue.of(read_json(path)))
        return self._cached[name][1]
