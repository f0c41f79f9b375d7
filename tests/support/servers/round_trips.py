"""Something small to write to each server, and to read back later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import psycopg
from kazoo.client import KazooClient

from springline.services.servers.postgres import database_url
from springline.services.servers.s3 import BUCKET
from springline.services.servers.spark import spark
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from tests.support.servers.servers import Running

TEXT = "what was written"


@dataclass(frozen=True)
class RoundTrip:
    """How to leave something in a server, and how to get it back."""

    write: Callable[[Running], None]
    read: Callable[[Running], str]


def _to_postgres(server: Running) -> None:
    with psycopg.connect(database_url(server.settings, "springline", "postgresql")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS said (words text)")
        connection.execute("DELETE FROM said")
        connection.execute("INSERT INTO said VALUES (%s)", (TEXT,))


def _from_postgres(server: Running) -> str:
    with psycopg.connect(database_url(server.settings, "springline", "postgresql")) as connection:
        (row,) = connection.execute("SELECT words FROM said").fetchall()
    return str(row[0])


def _to_kafka(server: Running) -> None:
    with server.log() as log:
        log.create({"said": 1})
        with log.record_sender() as sending:
            sending.send(OutgoingRecord("said", 0, TEXT.encode()))


def _from_kafka(server: Running) -> str:
    with server.log() as log:
        return next(bytes(message.value).decode() for message in log.fetch("said", 0, 0, 1))


def _hdfs(server: Running) -> str:
    return f"http://127.0.0.1:{server.settings.hdfs_http_port}/webhdfs/v1/said"


def _to_hdfs(server: Running) -> None:
    response = httpx.put(_hdfs(server), params={"op": "CREATE", "overwrite": "true", "replication": "2"}, timeout=30)
    httpx.put(response.headers["Location"], content=TEXT.encode(), timeout=30).raise_for_status()


def _from_hdfs(server: Running) -> str:
    answer = httpx.get(_hdfs(server), params={"op": "OPEN"}, follow_redirects=True, timeout=60)
    assert answer.is_success, answer.text
    return answer.text


def _alluxio(server: Running, what: str, **body: object) -> httpx.Response:
    base = f"http://127.0.0.1:{server.settings.alluxio_proxy_port}/api/v1"
    answer = httpx.post(f"{base}/{what}", json=body, timeout=60)
    assert answer.is_success, answer.text
    return answer


def _to_alluxio(server: Running) -> None:
    """Write, again where the proxy finds out only by the call that a worker it knew was killed."""
    for _ in range(4):
        try:
            return _put_into_alluxio(server)
        except AssertionError as error:
            if "UNAVAILABLE" not in str(error):
                raise
    return _put_into_alluxio(server)


def _put_into_alluxio(server: Running) -> None:
    base = f"http://127.0.0.1:{server.settings.alluxio_proxy_port}/api/v1"
    if _alluxio(server, "paths//said/exists").json():
        _alluxio(server, "paths//said/delete")
    stream = _alluxio(server, "paths//said/create-file", writeType="CACHE_THROUGH").json()
    bytes_ = {"Content-Type": "application/octet-stream"}
    httpx.post(f"{base}/streams/{stream}/write", content=TEXT.encode(), headers=bytes_, timeout=60).raise_for_status()
    _alluxio(server, f"streams/{stream}/close")


def _from_alluxio(server: Running) -> str:
    stream = _alluxio(server, "paths//said/open-file").json()
    try:
        return _alluxio(server, f"streams/{stream}/read").text
    finally:
        _alluxio(server, f"streams/{stream}/close")


_SCHEMA = {"schema": json.dumps({"type": "enum", "name": "Said", "symbols": ["said"], "doc": TEXT})}


def _to_schema_registry(server: Running) -> None:
    httpx.post(f"{server.address}/subjects/said/versions", json=_SCHEMA, timeout=30).raise_for_status()


def _from_schema_registry(server: Running) -> str:
    answer = httpx.get(f"{server.address}/subjects/said/versions/1", timeout=60)
    assert answer.is_success, answer.text
    return str(json.loads(answer.json()["schema"])["doc"])


def _to_s3(server: Running) -> None:
    httpx.put(f"{server.address}/{BUCKET}/said", content=TEXT.encode(), timeout=30).raise_for_status()


def _from_s3(server: Running) -> str:
    return httpx.get(f"{server.address}/{BUCKET}/said", timeout=60).raise_for_status().text


@contextmanager
def _zookeeper(server: Running) -> Iterator[KazooClient]:
    client = KazooClient(hosts=server.address)
    client.start(timeout=30)
    yield client
    client.stop()
    client.close()


def _to_zookeeper(server: Running) -> None:
    with _zookeeper(server) as client:
        client.ensure_path("/said")
        client.set("/said", TEXT.encode())


def _from_zookeeper(server: Running) -> str:
    with _zookeeper(server) as client:
        return str(client.get("/said")[0].decode())


_SUM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
print("sum", spark.range(1000).repartition(4).selectExpr("sum(id)").first()[0])
"""


def _from_spark(server: Running) -> str:
    """The standalone Spark keeps nothing; it is asked for a sum."""
    one_executor = "--executor-cores 2 --total-executor-cores 2 --executor-memory 512m"
    submit_arguments = f"--master {server.address} --driver-memory 512m {one_executor} pyspark-shell"
    environment = {**os.environ, **spark(server.settings).environment, "PYSPARK_SUBMIT_ARGS": submit_arguments}
    completed_process = subprocess.run(
        [sys.executable, "-c", _SUM], env=environment, capture_output=True, text=True, timeout=240
    )
    return TEXT if "sum 499500" in completed_process.stdout else completed_process.stdout + completed_process.stderr


ROUND_TRIPS: Mapping[str, RoundTrip] = {
    "hdfs": RoundTrip(_to_hdfs, _from_hdfs),
    "alluxio": RoundTrip(_to_alluxio, _from_alluxio),
    "postgres": RoundTrip(_to_postgres, _from_postgres),
    "kafka": RoundTrip(_to_kafka, _from_kafka),
    "schema-registry": RoundTrip(_to_schema_registry, _from_schema_registry),
    "s3": RoundTrip(_to_s3, _from_s3),
    "zookeeper": RoundTrip(_to_zookeeper, _from_zookeeper),
    "spark": RoundTrip(lambda server: None, _from_spark),
}
