"""A Spark Connect server for tests: killed and started again on demand."""

from __future__ import annotations

from pathlib import Path

from springline.services.process.ports import free_ports
from springline.services.servers.spark_connect import spark_connect
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor


class SparkServer:
    """One server on a port of its own, as `services` starts it."""

    def __init__(self, home: Path) -> None:
        self.port = free_ports(1)
        self._server = spark_connect(
            ServiceSettings(home=home, spark_connect_port=self.port, spark_connect_master="local[2]")
        )
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
