"""Apache ZooKeeper, from the jars that PySpark ships: the channel of back-pressure's patent, nothing else needs it."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

from springline.services.packages.java import find_java, spark_home
from springline.services.process.ports import listens
from springline.services.server import Process, Server
from springline.services.settings import ServiceSettings, conf

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_NEEDED = ("zookeeper*", "slf4j-api*", "log4j-*", "netty-*", "metrics-core*", "snappy-java*", "commons-*", "jcl-over*")


def zookeeper(settings: ServiceSettings) -> Server:
    """The server as `settings` want it."""
    folder = settings.home / "zookeeper"
    jars = sorted(jar for pattern in _NEEDED for jar in (spark_home() / "jars").glob(f"{pattern}.jar"))
    command = find_java(os.environ, settings.home).command(
        _MAIN,
        heap=settings.zookeeper_heap,
        classpath=jars,
        options=(f"-Dlog4j2.configurationFile=file:{conf('log4j2.properties')}",),
    )
    return Server(
        name="zookeeper",
        address=f"127.0.0.1:{settings.zookeeper_port}",
        folder=folder,
        processes=(Process("server", (*command, str(folder / "zoo.cfg"))),),
        environment={},
        ports={"SPRINGLINE_ZOOKEEPER_PORT": settings.zookeeper_port},
        ready=partial(_missing, settings.zookeeper_port),
        prepare=partial(_prepare, folder, settings.zookeeper_port),
    )


def _prepare(folder: Path, port: int) -> None:
    here = f"dataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
    (folder / "zoo.cfg").write_text((conf("zookeeper") / "zoo.cfg").read_text() + here)


def _missing(port: int) -> str:
    if not listens(port):
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
        return "no session is opened"
    finally:
        client.stop()
        client.close()
    return ""
