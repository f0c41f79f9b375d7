"""What every server of the cluster takes: seconds until it is ready, at the first start and later, and memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import Goal, Report
from springline.services.packages.jars import Jars
from springline.services.process.groups import resident_bytes
from springline.services.process.run_state import ServerRecords
from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.servers.alluxio import ramdisk
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor

CLUSTER = ("postgres", "zookeeper", "kafka", "hdfs", "alluxio", "spark-connect", "airflow")
_SETTINGS = {"spark_connect_stores": ("alluxio",)}
_MOST = 12 << 30


def run(size: str) -> Report:
    """Start the servers of the cluster one after another; with `full` end them, and start them once more."""
    load = os.getloadavg()[0]
    with _home() as settings:
        supervisor = Supervisor(settings.home, say=lambda text: None)
        for each in ("kafka", "hdfs", "alluxio", "spark"):
            Jars(settings).folder(each)
        first = {name: _seconds(supervisor, settings, name) for name in CLUSTER}
        second: Mapping[str, float] = {}
        if size == "full":
            for name in reversed(CLUSTER):
                supervisor.down(name, settings.stop_timeout)
            second = {name: _seconds(supervisor, settings, name) for name in CLUSTER}
        rows = [_row(settings, name, first[name], second.get(name)) for name in CLUSTER]
    total = sum(row["own_MB"] for row in rows) * 1e6 + settings.alluxio_workers * settings.alluxio_memory
    total_row = {
        "service": "all",
        "processes": sum(row["processes"] for row in rows),
        "first_s": sum(first.values()),
        "again_s": sum(second.values()) or None,
        "resident_MB": sum(row["resident_MB"] for row in rows),
        "own_MB": sum(row["own_MB"] for row in rows),
    }
    return Report(
        "services",
        size,
        [*rows, total_row],
        [
            Goal(
                "memory of the whole cluster, with Alluxio's ramdisk full, GiB",
                round(total / (1 << 30), 2),
                f"at most {_MOST >> 30}",
                total <= _MOST,
            )
        ],
        (
            "The servers were started one after another, the jars being here already. Of what else ran on the machine, "
            f"the load tells: {load:.1f} when it began, for {os.cpu_count()} cores.",
            "The first start makes what a server keeps: folders, tables, a journal. The later one finds it.",
            "Memory is that of the processes just after the last one became ready. `resident` counts what processes "
            "share in each of them, `own` each one's part of it.",
            f"Alluxio's ramdisk may hold {settings.alluxio_memory / 1e6:,.0f} MB more.",
        ),
    )


def _seconds(supervisor: Supervisor, settings: ServiceSettings, name: str) -> float:
    started_at = time.monotonic()
    supervisor.up(make_servers([name], settings), 600)
    return time.monotonic() - started_at


def _row(settings: ServiceSettings, name: str, first: float, second: float | None) -> dict[str, Any]:
    record = ServerRecords(settings.home / "run").load(name)
    assert record is not None
    return {
        "service": name,
        "processes": len(record.processes),
        "first_s": first,
        "again_s": second,
        "resident_MB": sum(resident_bytes(record).values()) / 1e6,
        "own_MB": sum(resident_bytes(record, shared=False).values()) / 1e6,
    }


@contextmanager
def _home() -> Iterator[ServiceSettings]:
    """A home of its own, whose servers are ended with the measurement."""
    home = Path(tempfile.mkdtemp(prefix="springline-bench-", dir="/tmp"))
    home.chmod(0o711)  # PostgreSQL's user passes through it
    settings = scratch_settings(home, **_SETTINGS)
    supervisor = Supervisor(home)
    try:
        yield settings
    finally:
        for name in reversed(CLUSTER):
            supervisor.down(name, 5)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(ramdisk(settings), ignore_errors=True)
