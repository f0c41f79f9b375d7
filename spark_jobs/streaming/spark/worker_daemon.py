"""Spark's daemon of Python workers, which imports the common modules once, before it forks the workers.

Each worker of PySpark's own daemon imports them separately: some two seconds of CPU per worker, at the start of an
application and after every crash of a worker. The modules imported here must not start threads, which a fork would not
copy; so Polars is not among them. Compiling one function makes numba ready, which takes a third of a second, and Arrow
imports pandas at the first conversion to numpy.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from contextlib import suppress

MODULE = "springline.spark_jobs.streaming.spark.worker_daemon"
STEP_MODULES = "SPRINGLINE_STEP_MODULES"  # comma-separated, in the environment of executors
SETTINGS = "SPRINGLINE_SECRET_DEFAULTS"  # the settings of the driver, as a JSON object: so named that Spark redacts it
_WORKER = "pyspark.worker"
_PRELOADED = (_WORKER, "pyarrow", "pandas", "confluent_kafka", "springline.spark_jobs.streaming.spark.worker")


def main() -> None:
    """Run PySpark's daemon for the kind of workers that the first argument names."""
    from pyspark.daemon import manager

    use_default_settings()
    if sys.argv[1:2] == [_WORKER]:
        warm_numba()
        preload([*_PRELOADED, *filter(None, os.environ.get(STEP_MODULES, "").split(","))])
    else:
        preload(sys.argv[1:2])
    manager()


def use_default_settings() -> None:
    """Use the settings of the driver, except for those that the environment of this host sets: such as its folders."""
    for name, value in json.loads(os.environ.pop(SETTINGS, "{}")).items():
        os.environ.setdefault(name, value)


def warm_numba() -> None:
    """Let numba load the implementations of its functions, which it does when it compiles the first one."""
    with suppress(ImportError):
        import numba

        numba.njit()(lambda: 0)()


def preload(modules: list[str]) -> None:
    """Import these modules, and exclude all objects from garbage collection, which would copy the shared pages.

    A module that cannot be imported is left to the worker that needs it, which reports the error.
    """
    for module in modules:
        with suppress(Exception):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
