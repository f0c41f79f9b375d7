"""HDFS: one NameNode and several DataNodes, with WebHDFS."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from springline.services.packages.jars import Jars
from springline.services.packages.java import ServerJava, find_java
from springline.services.server import ANSWER_SECONDS, InitStep, Process, Server
from springline.services.settings import ServiceSettings, conf_path

_SERVER = "org.apache.hadoop.hdfs.server"
_PORTS_EACH = 3  # per DataNode: data, IPC, HTTP
_OPENED = ("java.lang", "java.nio", "sun.nio.ch", "java.util")


def hdfs(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
    folder = settings.home / "hdfs"
    java = find_java(os.environ, settings.home)
    return Server(
        name="hdfs",
        address=f"hdfs://127.0.0.1:{settings.hdfs_port}",
        folder=folder,
        processes=(
            Process("namenode", _command(settings, java, folder, "namenode.NameNode", settings.hdfs_namenode_heap)),
            *(
                Process(
                    name,
                    _command(settings, java, folder, "datanode.DataNode", settings.hdfs_datanode_heap),
                    _datanode(settings, number),
                )
                for number, name in enumerate(_datanodes(settings), 1)
            ),
        ),
        environment={
            "NAMENODE_HOST": "127.0.0.1",
            "NAMENODE_PORT": str(settings.hdfs_port),
            "NAMENODE_HTTP_PORT": str(settings.hdfs_http_port),
            "HDFS_FOLDER": str(folder),
            "HDFS_REPLICATION": str(settings.hdfs_replication),
            **_datanode(settings, 1),  # needed to read the configuration, not used by the NameNode
        },
        ports={
            "SPRINGLINE_HDFS_PORT": settings.hdfs_port,
            "SPRINGLINE_HDFS_HTTP_PORT": settings.hdfs_http_port,
            **{
                f"SPRINGLINE_HDFS_DATANODE_PORT{f' + {offset}' if offset else ''}": settings.hdfs_datanode_port + offset
                for offset in range(_PORTS_EACH * settings.hdfs_datanodes)
            },
        },
        readiness_problem=partial(
            _readiness_problem,
            settings.hdfs_http_port,
            {
                name: int(_datanode(settings, number)["DATANODE_HTTP_PORT"])
                for number, name in enumerate(_datanodes(settings), 1)
            },
        ),
        prepare=partial(_prepare, settings, folder),
        init_steps=(
            InitStep(
                "format",
                (
                    *_command(settings, java, folder, "namenode.NameNode", settings.hdfs_namenode_heap),
                    *("-format", "-nonInteractive"),
                ),
                folder / "formatted",
                output_folder=folder / "namenode",
            ),
        ),
    )


def _command(settings: ServiceSettings, java: ServerJava, folder: Path, name: str, heap: str) -> tuple[str, ...]:
    return java.command(
        f"{_SERVER}.{name}",
        heap=heap,
        classpath=(conf_path("hdfs"), folder / "pages", settings.jars_folder / "hdfs" / "*"),
        options=tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    )


def _datanodes(settings: ServiceSettings) -> tuple[str, ...]:
    return tuple(f"datanode-{number}" for number in range(1, settings.hdfs_datanodes + 1))


def _datanode(settings: ServiceSettings, number: int) -> dict[str, str]:
    first = settings.hdfs_datanode_port + _PORTS_EACH * (number - 1)
    return {
        "DATANODE_NAME": f"datanode-{number}",
        "DATANODE_HOST": "127.0.0.1",
        "DATANODE_PORT": str(first),
        "DATANODE_IPC_PORT": str(first + 1),
        "DATANODE_HTTP_PORT": str(first + 2),
    }


def _prepare(settings: ServiceSettings, folder: Path) -> None:
    Jars(settings).folder("hdfs")
    # The web pages are not in the jars; without their folders nothing is served over HTTP, including WebHDFS.
    for pages in ("hdfs", "datanode"):
        (folder / "pages" / "webapps" / pages).mkdir(parents=True, exist_ok=True)


def _readiness_problem(http_port: int, datanodes: Mapping[str, int]) -> str:
    """Return what is not ready, or an empty text: the NameNode must be out of safe mode, and every DataNode registered
    with its blocks reported.
    """
    state = _query_jmx(http_port, "Hadoop:service=NameNode,name=FSNamesystemState")
    info = _query_jmx(http_port, "Hadoop:service=NameNode,name=NameNodeInfo")
    if state is None or info is None or "LiveNodes" not in info:
        return "the NameNode does not answer"
    if state["FSState"] != "Operational":
        return f"the NameNode is in state {state['FSState']}"
    minutes = (time.time() - info["NNStartedTimeInMillis"] / 1000) / 60
    live = {each["infoAddr"]: each for each in json.loads(info["LiveNodes"]).values()}
    for name, port in datanodes.items():
        live_node = live.get(f"127.0.0.1:{port}")
        # The NameNode still lists a DataNode that was killed a moment ago, so each DataNode is queried as well.
        if live_node is None or not _is_serving(port):
            return f"{name} has not registered"
        if not live_node["capacity"] or live_node["lastBlockReport"] > minutes:
            return f"{name} has not reported its blocks"
    return ""


def _is_serving(http_port: int) -> bool:
    info = _query_jmx(http_port, "Hadoop:service=DataNode,name=DataNodeInfo")
    if info is None:
        return False
    actors = json.loads(info.get("BPServiceActorInfo") or "[]")  # missing while it starts
    return bool(actors) and all(actor["ActorState"] == "RUNNING" for actor in actors)


def _query_jmx(http_port: int, bean: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/jmx?qry={bean}", timeout=ANSWER_SECONDS) as response:
            (attributes,) = json.load(response)["beans"]
    except (OSError, ValueError):
        return None
    return dict(attributes)
