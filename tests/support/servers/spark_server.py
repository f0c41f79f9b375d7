"""A Spark Connect server for tests: in a process group of its own, killed and started again on demand."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from springline.services.servers.spark_connect import spark_connect
from springline.services.settings import ServiceSettings


class SparkServer:
    """One server on a port of its own, with the command line that `services` starts it with."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._home = home
        self._server = spark_connect(
            ServiceSettings(home=home, spark_connect_port=self.port, spark_connect_master="local[2]")
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def remote(self) -> str:
        """Its address."""
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it serves."""
        self._server.prepare()
        self._home.mkdir(parents=True, exist_ok=True)
        with (self._home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._server.processes[0].command,
                env={**os.environ, **self._server.environment},
                cwd=self._home,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + 120
        while missing := self._server.readiness_problem():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{missing}; see {self._home / 'server.log'}")
            time.sleep(0.2)

    def kill(self) -> None:
        """End it at once, as a fault does."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
