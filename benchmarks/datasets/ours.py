"""Springline as a side of a contest: its platform on the same Alluxio and HDFS, with a persister beside it."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import select

from benchmarks.datasets.cluster import PATIENCE, Cluster
from benchmarks.datasets.peers import PARAMS, write_as
from benchmarks.datasets.processes import start_persister
from benchmarks.datasets.workload import IN_ORDER
from springline.persistence.catalog.schema import generation
from springline.persistence.model.dataset import Dataset, OperationResult, Origin, Phase, Strategy
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.runner import SparkRunner

_FOLDER = "/springline"
_DATA_ONLY = 1 << 60  # bytes up to which data is sent rather than the operation: there is one pool of cores
_PREFIX = "bench/"


class Springline:
    """The outputs as datasets under one strategy; the cache is Alluxio, the under-store HDFS."""

    persists = True

    def __init__(
        self, cluster: Cluster, runner: SparkRunner, strategy: Strategy, home: Path, *, persisters: int
    ) -> None:
        self.name = str(strategy)
        self._cluster = cluster
        self._runner = runner
        self._strategy = strategy
        self._count = persisters
        self._settings = Settings(
            home=home,
            cache_uri=f"{cluster.alluxio}{_FOLDER}",
            cache_capacity=cluster.settings.alluxio_memory,
            alluxio_proxy=cluster.proxy,
            under_uri=f"{cluster.hdfs}{_FOLDER}",
            hdfs_http=cluster.web,
            min_operation_bytes=_DATA_ONLY,
            lease_seconds=10,
            retry_seconds=0.5,
        )
        self._open = ExitStack()

    def __enter__(self) -> Springline:
        with ExitStack() as opening:
            opening.callback(shutil.rmtree, self._settings.home, ignore_errors=True)
            opening.callback(self._cluster.clear, _FOLDER)
            self._cluster.clear(_FOLDER)
            write_as(self._runner.sessions.get(), "ASYNC_THROUGH", wait=-1)
            self._platform = open_platform(self._settings, runner=self._runner, actor="benchmark")
            opening.callback(self._platform.close)
            self._persisters = [self._started(opening) for _ in range(self._count)]
            self._await_persisters()
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def make(self, operation: str) -> str:
        origin = Origin("benchmark", "batch 1", task_id=operation)
        return materialize(self._platform, operation, PARAMS, origin=origin, strategy=self._strategy).digest

    def waiting(self) -> Mapping[str, int]:
        self._check_persisters()
        return {name: dataset.bytes for name, dataset in self._newest().items() if not dataset.persisted}

    def lost(self) -> Collection[str]:
        self._platform.maintenance.scan()
        return [name for name, dataset in self._newest().items() if not dataset.available]

    def bring_back(self, lost: Sequence[str]) -> Collection[str]:
        newest = self._newest()
        report = self._platform.restorer.restore([newest[name].ref for name in lost])
        report.require_no_failure()
        return [name for name in lost if newest[name].ref in report.irrecoverable]

    def _newest(self) -> dict[str, Dataset]:
        """The generation of each operation's output that readers see."""
        makers = {self._runner.registry.get(name).paths(PARAMS).output: name for name in IN_ORDER}
        datasets = self._platform.catalog.find(prefix=_PREFIX, phase=Phase.COMMITTED, superseded=False)
        return {makers[dataset.ref.path]: dataset for dataset in datasets}

    def _started(self, opening: ExitStack) -> subprocess.Popen[bytes]:
        """A persister that ends when `opening` closes."""
        process = start_persister(self._settings)
        opening.callback(process.wait)
        opening.callback(process.terminate)
        return process

    def _check_persisters(self) -> None:
        for process in self._persisters:
            if process.poll() is not None:
                raise RuntimeError(f"a persister ended with status {process.returncode}")

    def _await_persisters(self) -> None:
        """Return when every persister has sent something: they run all the time, as Alluxio's own threads do."""
        store, cache = self._platform.store, self._platform.cache
        until = time.monotonic() + PATIENCE
        for number in itertools.count():
            with store.write(f"warm-up/{number}", strategy=Strategy.ASYNC_STORE) as writing:
                with cache.create(writing.location, "part-0", 1) as file:
                    file.write(b"?")
                writing.mark_complete(OperationResult(1, "", 0.0))
            while self._platform.claims.depth():
                self._check_persisters()
                if time.monotonic() > until:
                    raise RuntimeError("the persisters do not begin to work")
                time.sleep(0.05)
            with self._platform.catalog.read_transaction() as connection:
                senders = set(connection.scalars(select(generation.c.lease_owner)))
            if len(senders) == self._count:
                return
