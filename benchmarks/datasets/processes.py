"""What the comparisons start beside themselves: persisters in processes of their own, and a Spark in this one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.datasets.workload import make_landing
from springline.persistence.settings import Settings
from springline.services.packages.java import find_java
from springline.spark_jobs.runner import SparkRunner, make_runner
from springline.spark_jobs.settings import JobSettings

_SPARK = {"spark.sql.parquet.compression.codec": "uncompressed", "spark.ui.showConsoleProgress": "false"}


def start_persister(settings: Settings, *, runner: str = "") -> subprocess.Popen[bytes]:
    """A persister with what was set in `settings`; without a runner it sends data only."""
    variables = {f"SPRINGLINE_{name.upper()}": str(getattr(settings, name)) for name in settings.model_fields_set}
    command = [sys.executable, "-m", "springline", "queue", "persist", "--forever", "--json"]
    environment = os.environ | variables | {"SPRINGLINE_RUNNER": runner}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


@contextmanager
def spark(
    *, batch: int, batches: int, memory: str, conf: Mapping[str, str] | None = None
) -> Iterator[tuple[SparkRunner, Path]]:
    """A Spark on two cores of this process, and a folder that goes afterwards, with landing files of `batch` bytes.

    Processes started meanwhile make the same Spark for themselves.
    """
    folder = Path(tempfile.mkdtemp(prefix="springline-bench-", dir=Path.cwd()))
    os.environ.update(find_java(os.environ, folder).environment(os.environ.get("PATH", "")))
    for number in range(1, batches + 1):
        make_landing(folder / "landing", number, batch)
    settings = JobSettings(
        home=folder,
        landing_uri=str(folder / "landing"),
        operations=("benchmarks.datasets.workload",),
        spark_remote="",
        spark_master="local[2]",
        spark_memory=memory,
        spark_conf={**_SPARK, **(conf or {})},
    )
    os.environ["SPRINGLINE_OPERATIONS"] = "benchmarks.datasets.workload"
    os.environ["SPRINGLINE_LANDING_URI"] = str(folder / "landing")
    os.environ["SPRINGLINE_SPARK_CONF"] = json.dumps(settings.spark_conf)
    runner = make_runner(settings)
    try:
        yield runner, folder
    finally:
        runner.close()
        shutil.rmtree(folder, ignore_errors=True)
