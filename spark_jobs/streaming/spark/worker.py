"""What runs the units of a stage, in a Python worker of Spark's executors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from springline.persistence.monitoring.logs import start_logging
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.thread_dump import tell_stacks_when_asked
from springline.spark_jobs.streaming.runtime.worker.task_loop import Shift, work
from springline.spark_jobs.streaming.runtime.worker.unit import Units

_FROZEN_AT = 3  # task of a worker at which its objects are taken out of garbage collection

_units: dict[tuple[str, str], tuple[Units, Kafka]] = {}  # of this worker process, by stage and cluster
_tasks = 0


def run(stage: str, cluster: str, shift: Shift, units: Sequence[int]) -> None:
    """Run a shift in the units of one task; `stage` and `cluster` are JSON."""
    _spare_the_collector()
    here, log = _units_here(stage, cluster)
    work(here, log, shift, units)


def _units_here(stage: str, cluster: str) -> tuple[Units, Kafka]:
    if (stage, cluster) not in _units:
        tell_stacks_when_asked()
        start_logging(MonitoringSettings(), sys.stderr)  # what a worker prints is the application's, or its executor's
        log = Kafka(Cluster.decode(cluster))
        log.connect()
        _units[stage, cluster] = (Units(Stage.decode(stage), log), log)
    return _units[stage, cluster]


def _spare_the_collector() -> None:
    """PySpark collects garbage after every task, which takes 50 ms with Arrow and numba loaded, unless frozen."""
    global _tasks
    _tasks += 1
    if _tasks == _FROZEN_AT:
        gc.collect()
        gc.freeze()
