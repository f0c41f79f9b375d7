"""Alluxio's own write types as sides of a contest: what Spark writes is persisted by Alluxio, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.datasets.cluster import Cluster
from springline.persistence.backends.alluxio_proxy import AlluxioProxy
from springline.spark_jobs.runner import SparkRunner

MUST_CACHE, ASYNC_THROUGH, CACHE_THROUGH = WRITE_TYPES = ("MUST_CACHE", "ASYNC_THROUGH", "CACHE_THROUGH")
PARAMS = {"batch": "1"}


def write_as(spark: SparkSession, write_type: str, *, wait: int) -> None:
    """Have Spark write to Alluxio in this way from now on; the JVM and its code stay warm.

    `wait`: milliseconds until Alluxio persists by itself, -1 for never.
    """
    session: Any = spark  # Hadoop's side of it is not declared
    conf = session.sparkContext._jsc.hadoopConfiguration()
    conf.set("alluxio.user.file.writetype.default", write_type)
    conf.set("alluxio.user.file.persistence.initial.wait.time", str(wait))
    # Clients are kept by address: without this the one of the trial before would serve.
    session._jvm.org.apache.hadoop.fs.FileSystem.closeAll()


class WriteType:
    """The outputs under one write type; whoever operates it knows at once what was lost, and runs just that again."""

    def __init__(self, cluster: Cluster, runner: SparkRunner, write_type: str) -> None:
        self.name = write_type
        self.persists = write_type != MUST_CACHE
        self._cluster = cluster
        self._runner = runner
        self._folder = f"/peer/{write_type.lower()}"
        self._proxy = AlluxioProxy(cluster.proxy, server=cluster.alluxio)
        self._tried: set[str] = set()

    def __enter__(self) -> WriteType:
        self._cluster.clear(self._folder)
        write_as(self._runner.sessions.get(), self.name, wait=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.clear(self._folder)

    def make(self, operation: str) -> str:
        paths = self._runner.registry.get(operation).paths(PARAMS)
        if operation in self._tried:
            self._proxy.remove(f"{self._folder}/{paths.output}")
        self._tried.add(operation)
        sources = [self._uri(path) for path in paths.sources]
        return self._runner.run(self._runner.call(operation, PARAMS), sources, self._uri(paths.output)).digest

    def waiting(self) -> Mapping[str, int]:
        waiting: dict[str, int] = {}
        for operation, status in self._files():
            if not status["persisted"]:
                waiting[operation] = waiting.get(operation, 0) + status["length"]
        return waiting

    def lost(self) -> Collection[str]:
        return {
            name for name, status in self._files() if not status["persisted"] and status["inAlluxioPercentage"] < 100
        }

    def bring_back(self, lost: Sequence[str]) -> Collection[str]:
        for operation in lost:
            self.make(operation)
        return ()

    def _uri(self, path: str) -> str:
        return f"{self._cluster.alluxio}{self._folder}/{path}"

    def _files(self) -> list[tuple[str, dict[str, Any]]]:
        """The files of data that are whole, each with the operation that made it."""
        registry = self._runner.registry
        files = []
        for status in self._cluster.files(self._folder):
            folder, _, name = status["path"].removeprefix(f"{self._folder}/").rpartition("/")
            makers = [each for each in self._tried if registry.get(each).paths(PARAMS).output == folder]
            if makers and name[0] not in "._":
                files.append((makers[0], status))
        return files
