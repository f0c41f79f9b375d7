"""A relay on a real Kafka, as a process of its own, of which a stage can be slowed down."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.backpressure.relay_job import allow, numbered
from springline.persistence.profile import project_folder
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from tests.support.servers.servers import Running
from tests.support.streams.application import Application
from tests.support.streams.stream_job import read_committed

_ROOT = project_folder()
_TURN = 0.05  # seconds


class RelayApp(Application):
    """`take -> parse -> count`, with a sibling of `count` and back-pressure, in one application or two."""

    def __init__(self, kafka: Running, home: Path, *, apart: bool = False, **settings: str) -> None:
        name = f"relay_{uuid.uuid4().hex[:8]}"
        super().__init__(kafka, home, name, "", SPRINGLINE_STREAM_CHECKPOINT_INTERVAL="0", **settings)
        self._apart = apart
        self._slow = home / "slow"
        self._over = threading.Event()
        self._feeder: threading.Thread | None = None
        self.fed = 0
        with kafka.log() as log:
            log.create({name: 1})

    def start(self) -> None:
        """Start the application, unless it lives."""
        if self._application is None or self._application.poll() is not None:
            self.folder.path.mkdir(parents=True, exist_ok=True)
            arguments = [self.name, "predictive", self.name, str(self._slow), *(["two"] if self._apart else [])]
            command = [sys.executable, "-m", "benchmarks.backpressure.relay_job", *arguments]
            with self.folder.log_file.open("ab") as log:
                self._application = subprocess.Popen(
                    command, env=self._environment, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip

    def slow_down(self, capacity: float) -> None:
        """Let `count` do so many bytes a second from now on."""
        allow(self._slow, capacity)

    def speed_up(self) -> None:
        """Let `count` do as much as it can."""
        self._slow.unlink()

    def feed(self, rate: float, size: int) -> None:
        """Send numbered messages of so many bytes, so many bytes a second, until `finish_feeding`."""
        self._feeder = threading.Thread(target=self._feed, args=(max(round(rate * _TURN / size), 1), size))
        self._feeder.start()

    def finish_feeding(self) -> None:
        """No more is sent."""
        self._over.set()
        if self._feeder is not None:
            self._feeder.join()

    def stages(self) -> dict[str, Any]:
        """The back-pressure status of each stage."""
        stage_states: dict[str, Any] = self.status().backpressure.get("stages", {})
        return stage_states

    def numbers(self) -> Counter[int]:
        """How often each message came out."""
        lines = (line for value, _ in read_committed(self.kafka.address, f"{self.name}.results")
                 for line in value.splitlines())  # fmt: skip
        return Counter(json.loads(line)["number"] for line in lines)

    def close(self) -> None:
        self.finish_feeding()
        super().close()

    def _feed(self, messages: int, size: int) -> None:
        with self.kafka.log() as log:
            while not self._over.wait(_TURN):
                with log.record_sender() as sending:
                    for number in range(self.fed, self.fed + messages):
                        sending.send(OutgoingRecord(self.name, 0, numbered(number, size)))
                self.fed += messages
