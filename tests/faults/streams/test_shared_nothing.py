"""Streams whose driver and executors share nothing but Kafka and the platform: as on a cluster of several machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from springline.services.servers.postgres import password_file
from springline.spark_jobs.streaming.examples.netflow import Flows
from tests.support.joins.join_job import JoinJob, skewed
from tests.support.servers.servers import Running
from tests.support.servers.spark_hosts import SparkHosts, can_unshare
from tests.support.streams.stream_job import StreamJob, expected
from tests.support.streams.word_job import WordJob

pytestmark = [
    pytest.mark.skipif(not can_unshare(), reason="mount namespaces need the rights of root"),
    pytest.mark.nightly("hosts of a Spark cluster are started and lost in each test"),
]

_TEXT = "spark counts what kafka holds and no word is lost when a host goes away with all of its memory"
_CONF = {
    "spark.executor.cores": "8",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkHosts]:
    """Two hosts."""
    hosts = SparkHosts(tmp_path_factory.mktemp("hosts"), 2)
    hosts.await_ready()
    yield hosts
    hosts.close()


@pytest.fixture
def settings(hosts: SparkHosts, postgres: Running, hdfs: Running) -> dict[str, str]:
    """Of jobs on these hosts; states are saved in HDFS, and listed in a catalog on PostgreSQL."""
    password = password_file(postgres.settings).read_text().strip().rpartition(":")[2]
    address = postgres.address.replace("@", f":{password}@").replace("postgresql:", "postgresql+psycopg:")
    return {
        "SPRINGLINE_STREAM_MASTER": hosts.address,
        "SPRINGLINE_STREAM_CONF": json.dumps(_CONF),
        "SPRINGLINE_STREAM_CHECKPOINT_INTERVAL": "2",
        "SPRINGLINE_CATALOG_URL": address,  # hosts have no file with the password
        "SPRINGLINE_UNDER_URI": f"{hdfs.address}/shared-nothing",
        "SPRINGLINE_HDFS_HTTP": f"http://127.0.0.1:{hdfs.settings.hdfs_http_port}",
        "SPRINGLINE_CACHE_CAPACITY": "1",  # each host has a cache of its own, which others cannot read
    }


def lose_a_host(hosts: SparkHosts) -> None:
    """One that has states, with all its memory; another one takes its place."""
    (host, *_) = (number for number in range(len(hosts.hosts)) if hosts.has_states(number))
    hosts.kill(host)
    hosts.add()
    hosts.await_ready()


def test_windows_are_those_of_one_machine(
    make_job: Callable[..., StreamJob], hosts: SparkHosts, settings: dict[str, str], tmp_path: Path
) -> None:
    """The driver has no state in its folders; an ad hoc query and a savepoint go by Kafka and the platform."""
    flows = Flows(40_000, seed=4, sips=100, rate=10_000)
    job = make_job(flows, size=400, admitted=3, **settings)
    job.start()
    job.await_round(6)
    lose_a_host(hosts)
    job.await_(lambda _: bool((job.folder.heartbeat() or {}).get("recovered")), patience=240)
    assert "savepoint middle created" in job.run("savepoint", "middle", "--timeout", "110")
    job.await_rows(flows.rows, patience=400)
    answer = json.loads(job.run("query", f"SELECT type, count(*) AS n FROM {job.name} GROUP BY type", "--json"))
    assert not list(job.state.rglob("*.json")) or all(".queries" in str(path) for path in job.state.rglob("*.json"))
    job.stop()
    assert job.results() == expected(flows)
    answer_after_restart = json.loads(
        job.run("query", f"SELECT type, count(*) AS n FROM {job.name} GROUP BY type", "--json")
    )
    assert sorted(map(str, answer_after_restart)) == sorted(map(str, answer))


def test_words_are_counted_once(
    make_words: Callable[..., WordJob], hosts: SparkHosts, settings: dict[str, str]
) -> None:
    """With tracking: its acks, time-outs and low watermarks."""
    job = make_words(tracking="ackers = 2", **settings)
    messages = ["\n".join([_TEXT] * 5)] * 400
    job.feed(messages)
    job.start()
    job.await_rounds(3)
    lose_a_host(hosts)
    job.await_completion(patience=400)
    job.await_counts(Counter({word: times * 2_000 for word, times in Counter(_TEXT.split()).items()}))
    assert not job.failures()
    job.stop()


def test_pairs_are_those_of_one_machine(
    make_join: Callable[..., JoinJob], hosts: SparkHosts, settings: dict[str, str]
) -> None:
    """Also of heavy keys, whose tuples several units have."""
    job = make_join(on="l.k = r.k", table="parallelism = 4", **settings)
    left, right = skewed(4_000, 1_600, 0.6, seed=1), skewed(4_000, 1_600, 0.6, seed=2, first=1_000_000)
    by_key: dict[int, list[int]] = {}
    for number, key, _ in right:
        by_key.setdefault(key, []).append(number)
    pairs = Counter((number, other) for number, key, _ in left for other in by_key.get(key, ()))
    job.feed({job.left: left, job.right: right}, 40)
    job.start()
    job.await_(lambda status: status.stages.get("join", {}).get("round", 0) >= 4, patience=240)
    lose_a_host(hosts)
    job.await_pairs(pairs, patience=400)
    job.stop()
    assert job.pairs() == pairs
