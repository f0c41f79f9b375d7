"""Runs the units of a stage in a Python worker of a Spark executor.

Where states are, and the platform that they are saved in, follow from the settings of the executor's host: nothing but
Kafka and the platform is shared with the driver.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from springline.persistence.engine.runner import NoRunner
from springline.persistence.monitoring.logs import configure_logging
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import StateStore
from springline.spark_jobs.streaming.runtime.thread_dump import dump_stacks_on_signal
from springline.spark_jobs.streaming.runtime.worker.checkpoints import CheckpointWriter
from springline.spark_jobs.streaming.runtime.worker.recovery import StateRecovery
from springline.spark_jobs.streaming.runtime.worker.state_server import StateServer
from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop, run_task
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.spark.stage_launch import StageLaunch

_FREEZE_TASK = 3  # number of the task of a worker before which its objects are excluded from garbage collection
_SYNC_TIMEOUT_SECONDS = 30.0  # for which a save waits for the under-store


@dataclass(frozen=True)
class _WorkerProcess:
    """What this process needs to run units of a stage."""

    worker: StageWorker
    log: Kafka
    recovery: StateRecovery
    checkpoints: CheckpointWriter
    server: StateServer | None


_processes: dict[str, _WorkerProcess] = {}  # by launch
_tasks = 0


def run(launch: str, task_loop: TaskLoop, units: Sequence[int]) -> None:
    """Run a task loop in the units of one task; `launch` is an encoded `StageLaunch`."""
    _freeze_garbage_collector()
    process = _process_of(launch)
    if process.server is not None:
        process.server.serve(units)
    run_task(process.worker, process.log, task_loop, units, process.recovery, process.checkpoints)


def _process_of(launch: str) -> _WorkerProcess:
    if launch not in _processes:
        dump_stacks_on_signal()
        configure_logging(
            MonitoringSettings(), sys.stderr
        )  # stderr of a worker goes to the log of the application or executor
        settings, decoded = StreamSettings(), StageLaunch.decode(launch)
        stage, cluster = decoded.stage, decoded.cluster
        log, commit_log = Kafka(cluster), Kafka(cluster)
        commit_log.connect()
        settings.make_folders()
        states = settings.state_folders(stage)
        states.remove_other_lives()
        worker = StageWorker(stage, states, log, commit_log)
        storage = _PlatformStorage()
        server = None
        if stage.state_query:
            server = StateServer(worker, stage.load_state_query(), lambda: Kafka(cluster))
        _processes[launch] = _WorkerProcess(
            worker, log, StateRecovery(worker, log, storage), CheckpointWriter(worker, storage), server
        )
    return _processes[launch]


class _PlatformStorage:
    """The checkpoints of the platform, which is opened on first use and stays open; usable by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._store: CheckpointStore | None = None

    def save(self, stage: Stage, unit: int, store: StateStore, round_id: RoundId) -> None:
        """See `CheckpointStorage`."""
        self._opened(stage.job).save(stage, unit, store, round_id)

    def fetch(self, stage: Stage, unit: int, store: StateStore, until: RoundId) -> RoundId | None:
        """See `CheckpointStorage`."""
        return self._opened(stage.job).fetch(stage, unit, store, until)

    def _opened(self, job: str) -> CheckpointStore:
        with self._lock:
            if self._store is None:
                settings = Settings(sync_timeout=_SYNC_TIMEOUT_SECONDS)
                self._store = CheckpointStore(open_platform(settings, runner=NoRunner(), actor=f"stream {job}"))
            return self._store


def _freeze_garbage_collector() -> None:
    """Freeze live objects: PySpark collects garbage after every task, which takes 50 ms with Arrow and numba loaded."""
    global _tasks
    _tasks += 1
    if _tasks == _FREEZE_TASK:
        gc.collect()
        gc.freeze()
