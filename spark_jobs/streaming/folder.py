"""A job's folder: what its application, its supervisors and its users tell each other.

registry.json      the queries, changed by users, read by the planner
heartbeat.json     how the job is, written by the application with every round
stop               present: the application ends at a round's boundary
lock               held by the application as long as it lives
checkpoint/STAGE   Spark's own log of rounds
log                what the application prints
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from spark_jobs.streaming.errors import AlreadyRuns
from spark_jobs.streaming.windows.registry import Registry

_LOOKERS_SECONDS = 1.0  # who only looks whether a job runs holds its lock for a moment


class JobFolder:
    """The folder of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.registry_file = path / "registry.json"
        self.stop_file = path / "stop"
        self.log_file = path / "log"
        self.lease_file = path / "lease"
        self.starts_file = path / "starts.json"

    def registry(self) -> Registry | None:
        """The queries as they are now; None before the job first started."""
        try:
            return Registry.from_json(json.loads(self.registry_file.read_bytes()))
        except FileNotFoundError:
            return None

    def change(self, change: Callable[[Registry | None], Registry]) -> Registry:
        """Change the queries; one change at a time, whoever makes it. A change that raises changes nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "registry.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            changed = change(self.registry())
            write_json(self.registry_file, changed.as_json())
            return changed

    def beat(self, told: dict[str, Any]) -> None:
        """Write the heartbeat."""
        write_json(self.path / "heartbeat.json", told)

    def heartbeat(self) -> dict[str, Any] | None:
        """The last heartbeat; None if there was none."""
        try:
            found: dict[str, Any] = json.loads((self.path / "heartbeat.json").read_bytes())
            return found
        except FileNotFoundError:
            return None

    def ask_to_stop(self) -> None:
        """Let the application end when the rounds that are planned are through."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.stop_file.touch()

    def runs(self) -> bool:
        """Whether an application of this job lives on this machine."""
        try:
            with (self.path / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the job's application while inside; raises `AlreadyRuns`."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("a+") as lock:
            until = time.monotonic() + _LOOKERS_SECONDS
            while not _locked(lock):
                if time.monotonic() > until:
                    raise AlreadyRuns(f"the application of job {self.path.name!r} runs already: {self.path}")
                time.sleep(0.02)
            yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def write_json(path: Path, told: Any) -> None:
    """Replace a file of JSON as a whole."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(json.dumps(told))
    half.replace(path)
