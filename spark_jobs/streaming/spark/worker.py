"""Runs the units of a stage in a Python worker of a Spark executor."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from springline.persistence.monitoring.logs import configure_logging
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.thread_dump import dump_stacks_on_signal
from springline.spark_jobs.streaming.runtime.worker.task_loop import TaskLoop, run_task
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker

_FREEZE_TASK = 3  # number of the task of a worker before which its objects are excluded from garbage collection

_workers: dict[tuple[str, str], tuple[StageWorker, Kafka]] = {}  # per worker process, by stage and cluster
_tasks = 0


def run(stage: str, cluster: str, task_loop: TaskLoop, units: Sequence[int]) -> None:
    """Run a shift in the units of one task; `stage` and `cluster` are JSON."""
    _freeze_garbage_collector()
    worker, log = _get_worker(stage, cluster)
    run_task(worker, log, task_loop, units)


def _get_worker(stage: str, cluster: str) -> tuple[StageWorker, Kafka]:
    if (stage, cluster) not in _workers:
        dump_stacks_on_signal()
        configure_logging(
            MonitoringSettings(), sys.stderr
        )  # stderr of a worker goes to the log of the application or executor
        log = Kafka(Cluster.decode(cluster))
        log.connect()
        _workers[stage, cluster] = (StageWorker(Stage.decode(stage), log), log)
    return _workers[stage, cluster]


def _freeze_garbage_collector() -> None:
    """Freeze live objects: PySpark collects garbage after every task, which takes 50 ms with Arrow and numba loaded."""
    global _tasks
    _tasks += 1
    if _tasks == _FREEZE_TASK:
        gc.collect()
        gc.freeze()
