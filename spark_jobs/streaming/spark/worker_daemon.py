"""Spark's daemon of Python workers, which imports what they all need once, before it forks them.

Each worker of PySpark's own daemon imports that anew: some two seconds of a core, times the workers that an application
begins with, and again whenever one has died. What is imported here may start no thread that a fork would miss.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress

MODULE = "springline.spark_jobs.streaming.spark.worker_daemon"
STEP_MODULES = "SPRINGLINE_STEP_MODULES"  # separated by commas; in the environment of executors
_WORKER = "pyspark.worker"
_NEEDED = (_WORKER, "pyarrow", "confluent_kafka", "springline.spark_jobs.streaming.spark.worker")


def main() -> None:
    """Be PySpark's daemon, of the kind of workers that its first argument names."""
    from pyspark.daemon import manager

    if sys.argv[1:2] == [_WORKER]:
        import_first([*_NEEDED, *filter(None, os.environ.get(STEP_MODULES, "").split(","))])
    manager()


def import_first(modules: list[str]) -> None:
    """Import these, and take all that there is by then out of garbage collection, which would copy the pages shared.

    What cannot be imported is left to the worker that needs it, which tells so.
    """
    for module in modules:
        with suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
