"""One Spark Connect server for all of these tests, and the workflow run once on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from springline.persistence.model.dataset import Dataset
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.landing import Landing, land
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.operations import OperationRegistry, load_operations
from springline.spark_jobs.runner import SparkRunner
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings
from tests.support.servers.spark_server import SparkServer

SNOW = "2013-02-08"  # a day of snow: many cancelled, many late, all four signs of bad weather
EMPTY = "2014-01-01"


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    """The server that all tests share."""
    server = SparkServer(tmp_path_factory.mktemp("spark-connect"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Landing files of a day of snow and of a day without flights."""
    folder = tmp_path_factory.mktemp("été 北京") / "landing files"
    land([date.fromisoformat(SNOW), date.fromisoformat(EMPTY)], Landing(str(folder)))
    return folder


@pytest.fixture(scope="session")
def job_settings(spark_server: SparkServer, landing: Path) -> JobSettings:
    """Settings that lead to that server and those files."""
    return JobSettings(
        spark_remote=spark_server.remote,
        landing_uri=str(landing),
        spark_conf={"spark.sql.shuffle.partitions": "2"},
        quality_mode="quarantine",
    )


@pytest.fixture(scope="session")
def sessions(job_settings: JobSettings) -> Iterator[SparkSessions]:
    """Hands out the session that tests share."""
    with closing(SparkSessions(job_settings)) as sessions:
        yield sessions


@pytest.fixture
def spark(sessions: SparkSessions) -> SparkSession:
    """A session that works, also after another test has killed the server."""
    return sessions.get()


@pytest.fixture
def make_runner(job_settings: JobSettings, sessions: SparkSessions) -> Callable[..., SparkRunner]:
    """Makes a runner of a registry (default: the workflow's), with settings of its own."""

    def make(registry: OperationRegistry | None = None, **settings: object) -> SparkRunner:
        return SparkRunner(
            job_settings.model_copy(update=settings),
            registry or load_operations(["springline.spark_jobs.etl"]),
            sessions,
        )

    return make


@pytest.fixture
def open_spark_platform(tmp_path: Path) -> Iterator[Callable[[SparkRunner], Platform]]:
    """Opens a platform in this test's folder with the runner given."""
    platforms: list[Platform] = []

    def open_(runner: SparkRunner) -> Platform:
        platforms.append(_platform(tmp_path, runner))
        return platforms[-1]

    yield open_
    for platform in platforms:
        platform.close()


class Workflow:
    """A platform on which the whole workflow was run for some days."""

    def __init__(self, platform: Platform, datasets: Mapping[str, Mapping[str, Dataset]]) -> None:
        self.platform = platform
        self.datasets = datasets

    def rows(self, name: str, ds: str = SNOW) -> list[dict[str, Any]]:
        """The rows of an output, read without Spark."""
        import pyarrow.parquet as parquet

        table = parquet.read_table(self.folder(name, ds))
        return list(table.to_pylist())

    def folder(self, name: str, ds: str = SNOW) -> Path:
        """Where an output is in the cache."""
        uri = self.platform.cache.uri(self.datasets[ds][name].cache_location)
        return Path(uri.removeprefix("file://"))

    def uris(self, names: Sequence[str], ds: str = SNOW) -> list[str]:
        """Where outputs are, as operations are given them."""
        return [f"file://{self.folder(name, ds)}" for name in names]


@pytest.fixture(scope="session")
def workflow(
    tmp_path_factory: pytest.TempPathFactory, job_settings: JobSettings, sessions: SparkSessions
) -> Iterator[Workflow]:
    """The whole workflow, run for the day of snow and the empty day, in folders with spaces and foreign letters."""
    runner = SparkRunner(job_settings, load_operations(["springline.spark_jobs.etl"]), sessions)
    with closing(_platform(tmp_path_factory.mktemp("naïve façade"), runner)) as platform:
        names = [
            operation.name for operation in runner.registry.topological_order() if operation.name.startswith("etl.")
        ]
        datasets = {ds: {name[4:]: materialize(platform, name, {"ds": ds}) for name in names} for ds in (SNOW, EMPTY)}
        yield Workflow(platform, datasets)


def _platform(folder: Path, runner: SparkRunner) -> Platform:
    settings = Settings(home=folder / "home", cache_uri=f"file://{folder}/cache", sync_timeout=0, retry_seconds=0)
    return open_platform(settings, runner=runner, actor="test")
