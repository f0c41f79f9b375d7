"""The Spark Connect server: one long-running Spark application that all tasks connect to."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

from springline.persistence.profile import import_root
from springline.services.packages.jars import Jars
from springline.services.packages.java import find_java, spark_home
from springline.services.server import ANSWER_SECONDS, Process, Server
from springline.services.settings import ServiceSettings
from springline.spark_jobs.jvm.class_archive import class_sharing_options

# Alluxio's client in Spark. A read from a worker that died fails after seconds (by default, 3 minutes), and a write
# goes to a worker that does not need to evict, according to a worker list that is at most one second old.
ALLUXIO_CLIENT = {
    "spark.hadoop.fs.alluxio.impl": "alluxio.hadoop.FileSystem",
    "spark.hadoop.alluxio.user.rpc.retry.max.duration": "10s",
    "spark.hadoop.alluxio.user.streaming.data.read.timeout": "5s",
    "spark.hadoop.alluxio.user.streaming.data.write.timeout": "5s",
    "spark.hadoop.alluxio.user.block.read.retry.max.duration": "5s",
    "spark.hadoop.alluxio.user.block.write.retry.max.duration": "5s",
    "spark.hadoop.alluxio.user.block.write.location.policy.class":
        "alluxio.client.block.policy.LocalFirstAvoidEvictionPolicy",
    "spark.hadoop.alluxio.user.worker.list.refresh.interval": "1s",
}  # fmt: skip

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


def spark_connect(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "spark-connect"
    java = find_java(os.environ, settings.home)
    spark = spark_home()
    scratch = folder / "local"
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.spark_connect_port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={scratch}" {class_sharing_options(java.home)}',
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        # Set by the client; the default would be three.
        "spark.hadoop.dfs.replication": str(settings.hdfs_replication),
        **_store_clients(settings),
    }
    return Server(
        name="spark-connect",
        address=f"sc://127.0.0.1:{settings.spark_connect_port}",
        folder=folder,
        processes=(
            Process(
                "server",
                (
                    # The caller may be a Spark Connect client itself, and its address would conflict.
                    *("env", "-u", "SPARK_REMOTE"),
                    str(spark / "bin" / "spark-submit"),
                    *("--class", _CLASS, "--name", "Springline"),
                    *("--master", settings.spark_connect_master, "--driver-memory", settings.spark_connect_memory),
                    *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
                    "spark-internal",
                ),
            ),
        ),
        environment={
            **java.environment(os.environ.get("PATH", "")),
            "SPARK_HOME": str(spark),
            "SPARK_CONNECT_MODE": "0",  # this is the server itself, not a client of one
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(import_root()),
        },
        ports={"SPRINGLINE_SPARK_CONNECT_PORT": settings.spark_connect_port},
        readiness_problem=partial(_readiness_problem, settings.spark_connect_port),
        prepare=partial(_prepare, settings, scratch),
        after=("spark",) if settings.spark_connect_master.startswith("spark://") else (),
    )


_JARS = {"alluxio": "spark", "s3": "spark-s3"}  # the set of jars with the client of a store


def _store_clients(settings: ServiceSettings) -> dict[str, str]:
    """Return the settings with which Spark reads and writes URIs of the stores whose clients it includes.

    Alluxio's files stay pinned until they are persisted. The address of S3 and its keys come with each session.
    """
    stores = settings.spark_connect_stores
    if not stores:
        return {}
    clients = ":".join(str(settings.jars_folder / _JARS[store] / "*") for store in stores)
    return {
        "spark.driver.extraClassPath": clients,
        "spark.executor.extraClassPath": clients,
        **(
            {
                "spark.hadoop.alluxio.user.file.writetype.default": "ASYNC_THROUGH",
                "spark.hadoop.alluxio.user.file.persistence.initial.wait.time": "-1",
                **ALLUXIO_CLIENT,
            }
            if "alluxio" in stores
            else {}
        ),
    }


def _prepare(settings: ServiceSettings, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)  # left by a server that was killed
    scratch.mkdir(parents=True)
    for store in settings.spark_connect_stores:
        Jars(settings).folder(_JARS[store])


def _readiness_problem(port: int) -> str:
    import grpc
    from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub

    request = AnalyzePlanRequest(session_id="00000000-0000-4000-8000-000000000000")
    request.spark_version.SetInParent()
    # A separate connection: one shared in this process would wait longer after each refusal, up to 2 min.
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            stub = SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
            stub.AnalyzePlan(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            return f"Spark does not answer on port {port} ({error.code().name.lower()})"
    return ""
