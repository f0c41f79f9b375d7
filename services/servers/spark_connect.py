"""The Spark Connect server: one long-lived Spark session that all tasks talk to."""

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
from springline.spark_jobs.jvm.class_archive import sharing

# Alluxio inside Spark. A read that a worker died under is given up after seconds (3 minutes otherwise), and a write
# goes to a worker that need not evict for it, by news of a second ago.
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
    """The server as `settings` want it."""
    folder = settings.home / "spark-connect"
    java = find_java(os.environ, settings.home)
    spark = spark_home()
    scratch = folder / "local"
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.connect_port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={scratch}" {sharing(java.home)}',
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        # A client decides; left alone it would ask for three.
        "spark.hadoop.dfs.replication": str(settings.hdfs_replication),
        **(_alluxio(settings) if settings.connect_alluxio else {}),
    }
    return Server(
        name="spark-connect",
        address=f"sc://127.0.0.1:{settings.connect_port}",
        folder=folder,
        processes=(
            Process(
                "server",
                (
                    # Whoever starts it may be a client of one, and then a second address would be in the way.
                    *("env", "-u", "SPARK_REMOTE"),
                    str(spark / "bin" / "spark-submit"),
                    *("--class", _CLASS, "--name", "Springline"),
                    *("--master", settings.connect_master, "--driver-memory", settings.connect_memory),
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
        ports={"SPRINGLINE_CONNECT_PORT": settings.connect_port},
        ready=partial(_missing, settings.connect_port),
        prepare=partial(_prepare, settings, scratch),
        after=("spark",) if settings.connect_master.startswith("spark://") else (),
    )


def _alluxio(settings: ServiceSettings) -> dict[str, str]:
    """What lets Spark read and write alluxio:// addresses, pinned until the platform has persisted it."""
    client = str(settings.jars_folder / "spark" / "*")
    return {
        "spark.driver.extraClassPath": client,
        "spark.executor.extraClassPath": client,
        "spark.hadoop.alluxio.user.file.writetype.default": "ASYNC_THROUGH",
        "spark.hadoop.alluxio.user.file.persistence.initial.wait.time": "-1",
        **ALLUXIO_CLIENT,
    }


def _prepare(settings: ServiceSettings, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)  # of one that was killed
    scratch.mkdir(parents=True)
    if settings.connect_alluxio:
        Jars(settings).folder("spark")


def _missing(port: int) -> str:
    import grpc
    from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub

    request = AnalyzePlanRequest(session_id="00000000-0000-4000-8000-000000000000")
    request.spark_version.SetInParent()
    # A connection of its own: one that others in this process share would wait longer after each refusal, up to 2 min.
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        try:
            stub = SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
            stub.AnalyzePlan(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            return f"Spark does not answer on port {port} ({error.code().name.lower()})"
    return ""
