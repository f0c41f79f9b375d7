"""What an administrator of HDFS does, by Hadoop's own tool."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from springline.services.registry import make_servers
from tests.support.servers.servers import Running

_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"


def dfsadmin(hdfs: Running, *arguments: str) -> str:
    """Run `hdfs dfsadmin` with these arguments; returns what it prints."""
    (server,) = make_servers(["hdfs"], hdfs.settings)
    namenode = server.processes[0]
    command = [part.replace(_NAMENODE, "org.apache.hadoop.hdfs.tools.DFSAdmin") for part in namenode.command]
    environment = {**os.environ, **server.environment, **namenode.environment}
    return subprocess.check_output(
        [*command, *arguments], env=environment, stderr=subprocess.PIPE, text=True, timeout=120
    )


@contextmanager
def safe_mode(hdfs: Running) -> Iterator[None]:
    """Inside, the NameNode takes no writes."""
    dfsadmin(hdfs, "-safemode", "enter")
    try:
        yield
    finally:
        dfsadmin(hdfs, "-safemode", "leave")
