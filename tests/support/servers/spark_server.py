"""A Spark Connect server for tests: killed and started again on demand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from springline.services.process.ports import free_ports
from springline.services.server import Server
from springline.services.servers.spark_connect import spark_connect
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor


def sparing(server: Server) -> Server:
    """A server whose JVM compiles less: what tests run does not repay more."""
    options = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return replace(server, environment={**server.environment, **options})


class SparkServer:
    """One server on a port of its own, as `services` starts it."""

    def __init__(self, home: Path) -> None:
        self.port = free_ports(1)
        settings = ServiceSettings(home=home, spark_connect_port=self.port, spark_connect_master="local[2]")
        self._server = sparing(spark_connect(settings))
        self._supervisor = Supervisor(home)

    @property
    def remote(self) -> str:
        """Its address."""
        return self._server.address

    def start(self) -> None:
        """Start it, unless it runs, and wait until it serves."""
        self._supervisor.up([self._server], 240)

    def kill(self) -> None:
        """End it at once, as a fault does."""
        self._supervisor.kill(self._server.name, "server")
