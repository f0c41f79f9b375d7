"""Opens the platform that Airflow's connections and the settings describe, and the message log of the streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from springline.airflow.connections import find_connection, overrides, spark_remote
from springline.airflow.metrics import task_meter
from springline.airflow.openlineage import open_task_lineage
from springline.airflow.secret_masking import mask_secrets
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings

if TYPE_CHECKING:
    from springline.spark_jobs.runner import SparkRunner
    from springline.spark_jobs.streaming.runtime.message_log import MessageLog


@contextmanager
def platform_session(actor: str) -> Iterator[Platform]:
    """Open the platform, with Spark as its runner; `actor` is recorded with each change."""
    runner = spark_runner()
    platform = open_platform(
        _settings(runner.settings.spark_remote),
        runner=runner,
        actor=actor,
        metrics_reporter=task_meter(),
        lineage_factory=open_task_lineage,
    )
    try:
        yield platform
    finally:
        platform.close()
        runner.close()


def without_runner(actor: str) -> AbstractContextManager[Platform]:
    """Open the platform without a runner: it runs no operations."""
    return closing(_open_without_runner(actor))


@contextmanager
def catalog_session(actor: str) -> Iterator[Catalog]:
    """Open only the catalog."""
    with without_runner(actor) as platform:
        yield platform.catalog


def log_session() -> AbstractContextManager[MessageLog]:
    """Open the message log of the streams."""
    from springline.spark_jobs.streaming.kafka.log import Kafka  # imports the Kafka client: only when a task runs
    from springline.spark_jobs.streaming.settings import StreamSettings

    return closing(Kafka(StreamSettings().cluster))


def _settings(remote: str = "") -> Settings:
    """Return the settings, overridden by connections, with their secrets masked in Airflow's logs."""
    settings = Settings(**overrides(find_connection))
    mask_secrets(settings, remote)
    return settings


def spark_runner() -> SparkRunner:
    """Return a runner of operations on the Spark that the connection names, otherwise on that of the settings."""
    from springline.spark_jobs.runner import make_runner  # imports Spark: only when a task runs
    from springline.spark_jobs.settings import JobSettings

    remote = spark_remote(find_connection)
    return make_runner(JobSettings(spark_remote=remote) if remote else JobSettings())


class CachedPlatform:
    """A platform without a runner that stays open, for a process with many requests.

    It is reopened when the settings or the connections change.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: tuple[Settings, Platform] | None = None

    def now(self) -> Platform:
        """Return the platform that the connections and the settings describe now."""
        settings = _settings()
        with self._lock:
            if self._open is None or self._open[0] != settings:
                self._open = settings, open_platform(settings, runner=NoRunner(), actor="API")
            return self._open[1]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Status of the queue: how many generations are queued, and whether one can be persisted or put into a table."""

    depth: int
    claimable: bool


class Queue:
    """A read-only view of the queue."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def read_status(self) -> QueueStatus:
        """Return the current status of the queue."""
        depth = self._platform.claims.depth()
        is_claimable = bool(depth) and any(True for _ in self._platform.persister.candidates())
        return QueueStatus(depth, is_claimable or self._platform.table_writer.has_pending())

    def close(self) -> None:
        """Close the catalog's database connection."""
        self._platform.close()


def open_queue() -> Queue:
    """Return the queue of the platform."""
    return Queue(_open_without_runner("queue trigger"))


def _open_without_runner(actor: str) -> Platform:
    return open_platform(_settings(), runner=NoRunner(), actor=actor)
