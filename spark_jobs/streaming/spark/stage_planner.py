"""Plans the rounds of a stage in a Python process of Spark's driver."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from springline.persistence.model.codec import Codec, from_json_value, to_json_value
from springline.spark_jobs.streaming.backpressure.rate_limit import RateLimiter
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
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

_POLL_SECONDS = 0.2  # a planner waits that long for work before it reports that there is none


@dataclass(frozen=True)
class WatchedFiles:
    """The files in the job's `folder` that a planner watches.

    `broadcast_files` are broadcast with rounds, by the names that the step uses for them; while one of `hold_files`
    exists, nothing is planned.
    """

    folder: str
    broadcast_files: Mapping[str, str]
    hold_files: Sequence[str]

    def encode(self) -> str:
        """Encode the files as an option of a Spark query."""
        return _WATCHED.encode(self).decode()

    @staticmethod
    def decode(text: str) -> WatchedFiles:
        """Decode an option, the inverse of `encode`; raises `DecodeError`."""
        return _WATCHED.decode(text.encode(), "the option of a Spark query")


_WATCHED: Codec[WatchedFiles] = Codec(
    WatchedFiles, 1, "the files that a planner watches", "end the application and start it again"
)


class StagePlanner:
    """Plans the rounds of a stage, with the options of `data_source.start_query`; rounds are encoded as JSON."""

    def __init__(self, options: Mapping[str, str]) -> None:
        stage = Stage.decode(options["stage"])
        watched_files = WatchedFiles.decode(options["watched"])
        folder = JobFolder(Path(watched_files.folder))
        watcher = _FileWatcher(watched_files)
        log = Kafka(Cluster.decode(options["cluster"]))
        self._planner = Planner(
            stage, log, time.time, watcher.broadcast_values, latest=options["latest"] == "true",
            admission_limit=RateLimiter(stage, folder.path), units=int(options["units"]),
        )  # fmt: skip
        self._task_loops = TaskLoopDriver(
            self._planner, watcher.is_paused, float(options["seconds"]), partial(_save_request, folder, stage)
        )

    def begin(self) -> dict[str, Any]:
        """Return the round to continue after."""
        return _offset(TaskLoopStart(self._planner.begin()))

    def first(self) -> dict[str, Any] | None:
        """Return how the next shift begins; None if there is currently nothing to do."""
        first = self._task_loops.first(_POLL_SECONDS)
        return None if first is None else _offset(first)

    def task_loop(self, first: dict[str, Any]) -> TaskLoop:
        """Return the shift that begins so."""
        return self._task_loops.begin(from_json_value(TaskLoopStart, first, "the offset of a Spark query"))


def _offset(start: TaskLoopStart) -> dict[str, Any]:
    """Encode the start of a shift as an offset of Spark."""
    offset: dict[str, Any] = to_json_value(start)
    return offset


def _save_request(folder: JobFolder, stage: Stage) -> SaveRequest | None:
    """Return what the application asks to be saved: the round of a savepoint, or before its end the newest one."""
    if (requested := folder.requested_saves()) is not None and stage.name in requested:
        return SaveRequest(requested[stage.name])
    return SaveRequest() if stage.checkpoint_interval and folder.stop_file.exists() else None


class _FileWatcher:
    """Watches files, and reads those again that were replaced."""

    def __init__(self, files: WatchedFiles) -> None:
        folder = Path(files.folder)
        self._paths = {name: folder / file for name, file in files.broadcast_files.items()}
        self._hold_files = [folder / hold for hold in files.hold_files]
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
