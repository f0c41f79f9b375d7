"""A Spark standalone cluster: a master and workers, for `SPRINGLINE_SPARK_CONNECT_MASTER=spark://…`."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from functools import partial

from springline.persistence.profile import import_root
from springline.services.packages.java import find_java, spark_home
from springline.services.server import ANSWER_SECONDS, Process, Server
from springline.services.settings import ServiceSettings
from springline.spark_jobs.jvm.class_archive import class_sharing_options

_DEPLOY = "org.apache.spark.deploy"


def spark(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "spark"
    java = find_java(os.environ, settings.home)
    home = spark_home()
    run = str(home / "bin" / "spark-class")
    address = f"spark://127.0.0.1:{settings.spark_port}"
    here = ("--host", "127.0.0.1")
    first = settings.spark_worker_port
    return Server(
        name="spark",
        address=address,
        folder=folder,
        processes=(
            Process(
                "master",
                (
                    *(run, f"{_DEPLOY}.master.Master", *here, "--port", str(settings.spark_port)),
                    *("--webui-port", str(settings.spark_web_port)),
                ),
            ),
            *(
                Process(
                    f"worker-{number + 1}",
                    (
                        *(run, f"{_DEPLOY}.worker.Worker", *here, "--port", str(first + 2 * number)),
                        *("--webui-port", str(first + 2 * number + 1)),
                        *("--cores", str(settings.spark_worker_cores), "--memory", settings.spark_worker_memory),
                        *("--work-dir", str(folder / f"worker-{number + 1}"), address),
                    ),
                )
                for number in range(settings.spark_workers)
            ),
        ),
        environment={
            **java.environment(os.environ.get("PATH", "")),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",  # otherwise its web UI listens on all interfaces
            "SPARK_DAEMON_MEMORY": settings.spark_heap,
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:+UseSerialGC {class_sharing_options(java.home)}",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(import_root()),
        },
        ports={
            "SPRINGLINE_SPARK_PORT": settings.spark_port,
            "SPRINGLINE_SPARK_WEB_PORT": settings.spark_web_port,
            **{
                f"SPRINGLINE_SPARK_WORKER_PORT{f' + {offset}' if offset else ''}": first + offset
                for offset in range(2 * settings.spark_workers)
            },
        },
        readiness_problem=partial(_readiness_problem, settings.spark_web_port, settings.spark_workers),
    )


def _readiness_problem(web_port: int, workers: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/json/", timeout=ANSWER_SECONDS) as response:
            state = json.load(response)
    except (OSError, ValueError):
        return "the master does not answer"
    alive = state["aliveworkers"]
    return "" if alive >= workers else f"{alive} of {workers} workers have registered"
