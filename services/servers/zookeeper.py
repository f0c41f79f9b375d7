"""Apache ZooKeeper, from PySpark's jars; needed only for the signal channel of the back-pressure patent."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

from springline.services.packages.java import find_java, spark_home
from springline.services.process.ports import is_listening
from springline.services.server import Process, Server
from springline.services.settings import ServiceSettings, conf_path

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_JAR_PATTERNS = (
    "zookeeper*",
    "slf4j-api*",
    "log4j-*",
    "netty-*",
    "metrics-core*",
    "snappy-java*",
    "commons-*",
    "jcl-over*",
)


def zookeeper(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "zookeeper"
    jars = sorted(jar for pattern in _JAR_PATTERNS for jar in (spark_home() / "jars").glob(f"{pattern}.jar"))
    command = find_java(os.environ, settings.home).command(
        _MAIN,
        heap=settings.zookeeper_heap,
        classpath=jars,
        options=(f"-Dlog4j2.configurationFile={conf_path('log4j2.properties').as_uri()}",),
    )
    return Server(
        name="zookeeper",
        address=f"127.0.0.1:{settings.zookeeper_port}",
        folder=folder,
        processes=(Process("server", (*command, str(folder / "zoo.cfg"))),),
        environment={},
        ports={"SPRINGLINE_ZOOKEEPER_PORT": settings.zookeeper_port},
        readiness_problem=partial(_readiness_problem, settings.zookeeper_port),
        prepare=partial(_prepare, folder, settings.zookeeper_port),
    )


def _prepare(folder: Path, port: int) -> None:
    here = f"dataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
    (folder / "zoo.cfg").write_text((conf_path("zookeeper") / "zoo.cfg").read_text() + here)


def _readiness_problem(port: int) -> str:
    if not is_listening(port):
        return f"nothing listens on port {port}"

    from kazoo.client import KazooClient
    from kazoo.handlers.threading import KazooTimeoutError

    quiet = logging.getLogger("springline.zookeeper")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    client = KazooClient(hosts=f"127.0.0.1:{port}", timeout=5, logger=quiet)
    try:
        client.start(timeout=5)
        client.exists("/")
    except KazooTimeoutError:
        return "no session can be opened"
    finally:
        client.stop()
        client.close()
    return ""
