"""The Spark Connect server: one long-lived Spark session that all tasks talk to."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from services.java import find_java
from services.server import Process, Server
from services.settings import ServiceSettings, checkout

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


def spark_connect(settings: ServiceSettings) -> Server:
    """The server as `settings` want it."""
    folder = settings.home / "spark-connect"
    java = find_java(os.environ, settings.home)
    spark = _spark_home()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.connect_port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    return Server(
        name="spark-connect",
        address=f"sc://127.0.0.1:{settings.connect_port}",
        folder=folder,
        processes=(
            Process(
                "server",
                (
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
            "PYTHONPATH": str(checkout()),
        },
        ports={"SPRINGLINE_CONNECT_PORT": settings.connect_port},
        ready=partial(_missing, settings.connect_port),
    )


def _spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark is not installed: run `make setup`")
    return Path(spec.origin).parent


def _missing(port: int) -> str:
    import grpc
    from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub

    request = AnalyzePlanRequest(session_id="00000000-0000-4000-8000-000000000000")
    request.spark_version.SetInParent()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            stub = SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
            stub.AnalyzePlan(request, timeout=5)
        except grpc.RpcError as error:
            return f"Spark does not answer on port {port} ({error.code().name.lower()})"
    return ""
