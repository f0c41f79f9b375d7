"""Opens the platform that Airflow's connections and the settings describe, and the streams' log, while needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from springline.airflow.connections import defined, overrides, spark_remote
from springline.airflow.metrics import task_meter
from springline.airflow.openlineage import open_task_lineage
from springline.airflow.secret_masking import mask
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings

if TYPE_CHECKING:
    from springline.spark_jobs.runner import SparkRunner
    from springline.spark_jobs.streaming.runtime.message_log import Log


@contextmanager
def opened(who: str) -> Iterator[Platform]:
    """The platform, with Spark as its runner; `who` is noted beside each change."""
    runner = spark_runner()
    platform = open_platform(
        _settings(runner.settings.spark_remote), runner=runner, who=who, meter=task_meter(), lineage=open_task_lineage
    )
    try:
        yield platform
    finally:
        platform.close()
        runner.close()


def without_runner(who: str) -> AbstractContextManager[Platform]:
    """The platform, which runs no operations."""
    return closing(_without_runner(who))


@contextmanager
def opened_catalog(who: str) -> Iterator[Catalog]:
    """The catalog alone."""
    with without_runner(who) as platform:
        yield platform.catalog


def opened_log() -> AbstractContextManager[Log]:
    """What the streams' topics hold."""
    from springline.spark_jobs.streaming.kafka.log import Kafka  # takes its client with it: only when a task runs
    from springline.spark_jobs.streaming.settings import StreamSettings

    return closing(Kafka(StreamSettings().cluster))


def _settings(remote: str = "") -> Settings:
    """The settings, connections first; Airflow knows their secrets from here on."""
    settings = Settings(**overrides(defined))
    mask(settings, remote)
    return settings


def spark_runner() -> SparkRunner:
    """Runs operations on the Spark that the connection names, else on the one of the settings."""
    from springline.spark_jobs.runner import make_runner  # takes Spark with it: only when a task runs
    from springline.spark_jobs.settings import JobSettings

    remote = spark_remote(defined)
    return make_runner(JobSettings(spark_remote=remote) if remote else JobSettings())


class Platforms:
    """A platform that stays open, without a runner, for a process that asks again and again.

    Another one is opened when the settings or the connections have become others.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: tuple[Settings, Platform] | None = None

    def now(self) -> Platform:
        """The platform that the connections and the settings describe now."""
        settings = _settings()
        with self._lock:
            if self._open is None or self._open[0] != settings:
                self._open = settings, open_platform(settings, runner=NoRunner(), who="API")
            return self._open[1]


@dataclass(frozen=True, slots=True)
class Look:
    """What the queue holds: how many want persisting, and whether one can be claimed now."""

    depth: int
    claimable: bool


class Queue:
    """A view of the queue that changes nothing."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def look(self) -> Look:
        """What the queue holds now."""
        depth = self._platform.claims.depth()
        return Look(depth, bool(depth) and any(True for _ in self._platform.persister.choices()))

    def close(self) -> None:
        """Let go of the database."""
        self._platform.close()


def open_queue() -> Queue:
    """The queue of the platform."""
    return Queue(_without_runner("queue trigger"))


def _without_runner(who: str) -> Platform:
    return open_platform(_settings(), runner=NoRunner(), who=who)
