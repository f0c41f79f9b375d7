"""Tests of the daemon that imports before it forks workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.spark import worker_daemon
from springline.spark_jobs.streaming.spark.session import WORKER_PYTHON

ROOT = Path(__file__).resolve().parents[4]
# Those of Arrow's allocator, which it starts again in a process that was forked.
HARMLESS = {"jemalloc_bg_thd"}
REPORT = """
import gc, os, sys
from springline.spark_jobs.streaming.spark import worker_daemon
from springline.spark_jobs.streaming.spark.session import WORKER_PYTHON
worker_daemon.warm_numba()
worker_daemon.preload([*worker_daemon._PRELOADED, "no.such.module", *sys.argv[1:]])
for thread in os.listdir("/proc/self/task"):
    print(open(f"/proc/self/task/{thread}/comm").read().strip())
print(gc.get_freeze_count() > 100_000, "springline.spark_jobs.streaming.windows.mapper" in sys.modules)
"""


def test_what_workers_need_is_imported_and_starts_no_thread_that_a_fork_would_miss() -> None:
    """Nor does a module that cannot be imported keep the others from it."""
    steps = (
        "windows.mapper", "windows.reducer", "join.router", "join.task.task", "wordcount.split", "wordcount.count",
        "tracking.acker.acker", "tracking.replay.message_mode", "tracker.intake", "tracker.outcome",
    )  # fmt: skip
    command = [sys.executable, "-c", REPORT, *(f"springline.spark_jobs.streaming.{step}" for step in steps)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    completed_process = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    _main, *threads, last = completed_process.stdout.splitlines()
    assert set(threads) <= HARMLESS
    assert last == "True True"


def test_workers_import_the_installed_pyspark_and_not_the_archives_of_spark() -> None:
    """Archives that users bring remain in the path."""
    spark = [f"/spark/python/lib/{name}" for name in ("pyspark.zip", "py4j-0.10-src.zip")]
    path = [*spark, "/spark/jars/spark-core_2.13-4.3.0.jar", "/job/steps.zip", "/job/a folder"]
    environment = {"SPRINGLINE_WORKER_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(path)}
    program = "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:])"
    completed_process = subprocess.run(
        [WORKER_PYTHON, "-c", program, "a b"], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert completed_process.stdout == "/job/steps.zip:/job/a folder a b\n"


def test_executors_have_the_settings_of_the_driver_but_those_of_their_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as its folders; the variable with all of them is not passed on."""
    monkeypatch.setenv(worker_daemon.SETTINGS, '{"SPRINGLINE_HOME": "/driver", "SPRINGLINE_LEASE_SECONDS": "7"}')
    monkeypatch.setenv("SPRINGLINE_HOME", "/host")
    monkeypatch.setenv("SPRINGLINE_LEASE_SECONDS", "")
    monkeypatch.delenv("SPRINGLINE_LEASE_SECONDS")
    worker_daemon.use_default_settings()
    assert (os.environ["SPRINGLINE_HOME"], os.environ["SPRINGLINE_LEASE_SECONDS"]) == ("/host", "7")
    assert worker_daemon.SETTINGS not in os.environ
    worker_daemon.use_default_settings()
