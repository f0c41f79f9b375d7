"""The whole workflow on Alluxio, HDFS, S3 and PostgreSQL: the results are those of the embedded default."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from springline.persistence.model.dataset import Dataset, OperationResult, Strategy, TransferMethod
from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.services.registry import make_servers
from springline.services.servers.postgres import database_url
from springline.services.servers.s3 import BUCKET
from springline.spark_jobs.landing import Landing, land, landing_of
from springline.spark_jobs.materialize import materialize
from springline.spark_jobs.operations import load_operations
from springline.spark_jobs.runner import SparkRunner
from springline.spark_jobs.session import SparkSessions
from springline.spark_jobs.settings import JobSettings
from tests.support.datasets.calls import counted_calls
from tests.support.datasets.digests import repeatable_digests
from tests.support.servers.servers import Running
from tests.support.servers.spark_server import sparing

DAY = "2013-01-05"


@pytest.fixture(scope="module")
def runner(start: Callable[[str], Running], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    """Runs the workflow's operations on a Spark Connect server that can reach Alluxio, HDFS and S3."""
    postgres = start("postgres")
    settings = postgres.settings.model_copy(update={"spark_connect_stores": ("alluxio", "s3")})
    (server,) = make_servers(["spark-connect"], settings)
    postgres.supervisor.up([sparing(server)], 240)
    landing = tmp_path_factory.mktemp("landing")
    land([date.fromisoformat(DAY)], Landing(str(landing)))
    jobs = JobSettings(
        spark_remote=server.address, landing_uri=str(landing), spark_conf={"spark.sql.shuffle.partitions": "2"}
    )
    with closing(SparkSessions(jobs)) as sessions:
        yield SparkRunner(jobs, load_operations(["springline.spark_jobs.etl"]), sessions)
    postgres.supervisor.down("spark-connect", 5)


@pytest.fixture
def cluster(postgres: Running, hdfs: Running, alluxio: Running, tmp_path: Path) -> Settings:
    """The profile `cluster`, on this run's servers."""
    return Settings(
        home=tmp_path / "cluster",
        catalog_url=database_url(postgres.settings, "springline"),
        cache_uri=f"{alluxio.address}/workflow",
        alluxio_proxy=f"http://127.0.0.1:{alluxio.settings.alluxio_proxy_port}",
        cache_capacity=200_000_000,
        under_uri=f"{hdfs.address}/workflow",
        hdfs_http=f"http://127.0.0.1:{hdfs.settings.hdfs_http_port}",
    )


@pytest.fixture
def on_s3(s3: Running, tmp_path: Path) -> Settings:
    """The profile `s3`, on this run's server."""
    return Settings(
        home=tmp_path / "s3",
        cache_uri=f"file://{tmp_path}/cache of s3",
        under_uri=f"s3://{BUCKET}/workflow",
        under_options={"endpoint_url": s3.address, "key": "springline", "secret": "springline"},  # type: ignore[arg-type]
        min_operation_bytes=0,
    )


def run(platform: Platform, runner: SparkRunner) -> dict[str, Dataset]:
    """Every operation of the workflow in order, under Async&Sync, then the queue."""
    names = [each.name for each in runner.registry.topological_order() if each.name.startswith("etl.")]
    datasets = {name[4:]: materialize(platform, name, {"ds": DAY}, strategy=Strategy.ASYNC_AND_SYNC) for name in names}
    assert platform.persister.drain(timeout=60).remaining == 0
    return {name: platform.catalog.get(each.ref) for name, each in datasets.items()}


def test_the_results_are_those_of_the_embedded_default(cluster: Settings, runner: SparkRunner, tmp_path: Path) -> None:
    """Same logical digests; everything is in HDFS, and comes back out of it when Alluxio's copy is gone."""
    embedded = Settings(home=tmp_path / "home", cache_uri=f"file://{tmp_path}/cache")
    with closing(open_platform(embedded, runner=runner)) as platform:
        expected = repeatable_digests(run(platform, runner))
    with closing(open_platform(cluster, runner=runner)) as platform:
        datasets = run(platform, runner)
        assert repeatable_digests(datasets) == expected
        assert all(each.persisted and each.in_cache for each in datasets.values())
        for each in datasets.values():
            platform.cache.delete(each.cache_location)
        lost = platform.maintenance.scan().lost
        assert {ref.path for ref in lost} == {each.ref.path for each in datasets.values()}
        report = platform.restorer.restore([datasets["carriers"].ref, datasets["hours"].ref])
        assert [step.action for step in report.steps] == ["fetch", "fetch"] and not report.irrecoverable


def test_on_s3_the_results_are_the_same_wherever_spark_writes(
    on_s3: Settings, runner: SparkRunner, tmp_path: Path
) -> None:
    """It reads sources and landing files from there and writes operations to it; a wiped cache is fetched back."""
    embedded = Settings(home=tmp_path / "home", cache_uri=f"file://{tmp_path}/cache")
    with closing(open_platform(embedded, runner=runner)) as platform:
        expected = repeatable_digests(run(platform, runner))
    jobs = runner.settings.model_copy(update={"landing_uri": f"s3://{BUCKET}/landing"})
    land([date.fromisoformat(DAY)], landing_of(jobs, on_s3))
    runner = SparkRunner(jobs, runner.registry, runner.sessions)
    with closing(open_platform(on_s3, runner=runner)) as platform:
        datasets = run(platform, runner)
        assert repeatable_digests(datasets) == expected
        hours = datasets["hours"]
        with platform.persister.sender.attempt(hours.ref, "test", TransferMethod.OPERATION, None) as attempt:
            assert attempt is None  # it is persisted already
        platform.under.delete(hours.under_location)
        platform.maintenance.scan(deep=True)
        with platform.persister.sender.attempt(hours.ref, "test", TransferMethod.OPERATION, None) as attempt:
            assert attempt is not None
            sent = attempt.send_operation(hours, platform.catalog.get_all(hours.sources))
        assert sent.persisted and sent.method is TransferMethod.OPERATION
        shutil.rmtree(tmp_path / "cache of s3")
        platform.maintenance.scan()
        report = platform.restorer.restore([each.ref for each in datasets.values()])
        assert not report.irrecoverable and not report.failed
        assert repeatable_digests({name: platform.catalog.get(each.ref) for name, each in datasets.items()}) == expected


def write_one(platform: Platform, path: str) -> None:
    """A dataset of one file."""
    with platform.store.write(path, strategy=Strategy.ASYNC_STORE) as writing:
        with platform.cache.create(writing.location, "part.txt", 4) as out:
            out.write(b"row\n")
        writing.mark_complete(OperationResult(rows=1, digest="", seconds=0.1))


def test_a_dataset_takes_so_many_calls(cluster: Settings) -> None:
    """Of its write into Alluxio, and of its transfer to HDFS."""
    with closing(open_platform(cluster)) as platform:
        write_one(platform, "calls/before")
        platform.persister.drain()
        with counted_calls(platform) as written:
            write_one(platform, "calls/a")
        with counted_calls(platform) as sent:
            assert platform.persister.drain().persisted == 1
        platform.cache.delete("calls")
    # One of the requests asks a worker whether it answers, if that is some time ago.
    assert written <= Counter(statements=34, transactions=9, requests=8, connections=2)
    # The manifest takes six steps of HDFS: it is put beside its place, renamed, and read back.
    assert sent <= Counter(statements=30, transactions=13, requests=4, steps=14)
