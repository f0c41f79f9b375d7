"""A job's folder: the files through which its application, its supervisors and its users communicate.

heartbeat.json     status of the job, written by the application with every round
history.ring       lag and throughput of the last hour, written by the application every ten seconds
stop               present: the application ends at the end of a round
hold               present: the first stage plans no rounds, so that the others catch up
savepoint.json     the requested savepoint, and its outcome
saves.json         for a savepoint: the rounds of stages after which tasks are to save the states
rates, planned     of back-pressure: the rates that stages may admit, and the rounds that they have planned
lives.json         the ids of the topics of rounds, by stage
lease              touched by the supervisor of the application
launched.json      the process that was started last as the application
starts.json        when it was started for which DAG run
lock               locked by the application while it is alive
log                output of the application
scratch            temporary files of Spark; deleted when the next application starts
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from springline.persistence.model.codec import Codec
from springline.persistence.private_files import create_private_folder
from springline.spark_jobs.streaming.errors import AlreadyRunningError, UnknownSavepointError
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value

STOP: str = "stop"
"""The file of a job's folder in whose presence no stage begins another round: the job comes to its end."""
HOLD: str = "hold"
"""The file of a job's folder in whose presence the stages that read its own topic wait, so that others come up."""
LOCK, LOG = "lock", "log"
_PROBE_SECONDS = 1.0  # a process that only checks whether a job runs holds its lock for a moment


@dataclass(frozen=True, slots=True)
class LaunchedProcess:
    """A process that was started as a job's application: its id, and its start time in seconds since 1970."""

    pid: int
    started_at: float

    @property
    def is_alive(self) -> bool:
        """Whether the process is alive; a later process with the same id does not count."""
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            return bool(process.create_time() == self.started_at and process.status() != psutil.STATUS_ZOMBIE)
        return False


@dataclass(frozen=True, slots=True)
class _SavepointRequest:
    """A savepoint request: its name, whether it is still pending, and why it failed."""

    name: str
    is_pending: bool
    error: str = ""


_HEARTBEATS: Codec[dict[str, Any]] = Codec(
    dict[str, Any], 1, "the heartbeat of a job", "remove the file; the next start recreates it"
)
_LAUNCHES: Codec[LaunchedProcess] = Codec(
    LaunchedProcess, 1, "the process that was started for a job", "kill it if it is alive, and remove the file"
)
_SAVEPOINTS: Codec[_SavepointRequest] = Codec(
    _SavepointRequest, 1, "the requested savepoint", "remove the file, and request the savepoint again"
)
_SAVES: Codec[dict[str, tuple[int, int]]] = Codec(
    dict[str, tuple[int, int]], 1, "the requested states", "remove the file, and request the savepoint again"
)
_LIVES: Codec[dict[str, str]] = Codec(
    dict[str, str], 1, "the ids of the topics of rounds", "remove the file; the next start recreates it"
)


class JobFolder:
    """The folder of one job.

    Args:
        path: the folder; `make` creates it.

    Example:
        >>> job = JobFolder(folder / "words")
        >>> job.request_stop()
        >>> job.stop_file.exists(), job.is_running()
        (True, False)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stop_file = path / STOP
        self.hold_file = path / HOLD
        self._savepoint_file = path / "savepoint.json"
        self._saves_file = path / "saves.json"
        self._lives_file = path / "lives.json"
        self.log_file = path / LOG
        self.lease_file = path / "lease"
        self.scratch = path / "scratch"
        self.own_scratch = self.scratch / str(os.getpid())
        self.starts_file = path / "starts.json"
        self._launched_file = path / "launched.json"

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock of this name while inside, after waiting for its holder; creates the folder if needed."""
        self.make()
        with (self.path / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def make(self) -> None:
        """Create the folder, for its owner alone, and its parent; does nothing if they exist."""
        create_private_folder(self.path.parent)
        create_private_folder(self.path)

    def write_heartbeat(self, heartbeat: dict[str, Any]) -> None:
        """Write the heartbeat."""
        write_value(self.path / "heartbeat.json", _HEARTBEATS, heartbeat)

    def heartbeat(self) -> dict[str, Any] | None:
        """Return the last heartbeat; None if there was none. Raises `DecodeError`."""
        return read_value(self.path / "heartbeat.json", _HEARTBEATS)

    def request_stop(self) -> None:
        """Request that the application end once the planned rounds are completed."""
        self.make()
        self.stop_file.touch()

    def discard_leftovers(self) -> None:
        """Delete requests to the previous application, and what others than this process have in the scratch folder."""
        for scratch in self.scratch.glob("*"):
            if scratch != self.own_scratch:
                shutil.rmtree(scratch, ignore_errors=True)
        for file in (self.stop_file, self.hold_file, self._savepoint_file, self._saves_file):
            file.unlink(missing_ok=True)

    def request_savepoint(self, name: str) -> None:
        """Request a savepoint from the application; raises `UnknownSavepointError` while another one is pending."""
        if (pending := self.requested_savepoint()) is not None:
            raise UnknownSavepointError(
                f"{self.path.name}: savepoint {pending!r} is in progress; try again when it is done"
            )
        write_value(self._savepoint_file, _SAVEPOINTS, _SavepointRequest(name, is_pending=True))

    def requested_savepoint(self) -> str | None:
        """Return the name of the pending savepoint; None if there is none."""
        request = read_value(self._savepoint_file, _SAVEPOINTS)
        return request.name if request is not None and request.is_pending else None

    def finish_savepoint(self, name: str, error: str = "") -> None:
        """Record that a savepoint is made, or why it failed."""
        write_value(self._savepoint_file, _SAVEPOINTS, _SavepointRequest(name, is_pending=False, error=error))

    def savepoint_error(self) -> str:
        """Return why the last savepoint failed; empty if it was made."""
        request = read_value(self._savepoint_file, _SAVEPOINTS)
        return "the application has ended" if request is None else request.error

    @contextmanager
    def requesting_saves(self, round_ids: Mapping[str, tuple[int, int]]) -> Iterator[None]:
        """While inside, request that tasks save the states after these rounds, by stage."""
        write_value(self._saves_file, _SAVES, dict(round_ids))
        try:
            yield
        finally:
            self._saves_file.unlink(missing_ok=True)

    def requested_saves(self) -> Mapping[str, tuple[int, int]] | None:
        """Return the rounds after which tasks are to save the states, by stage; None if there is no request."""
        return read_value(self._saves_file, _SAVES)

    def lives(self) -> Mapping[str, str]:
        """Return the ids of the topics of rounds that the job has used, by stage."""
        return read_value(self._lives_file, _LIVES) or {}

    def record_lives(self, lives: Mapping[str, str]) -> None:
        """Record the ids of the topics of rounds that the job uses, by stage."""
        write_value(self._lives_file, _LIVES, dict(lives))

    def await_end(self, timeout: float) -> bool:
        """Wait until the application has ended; returns False if it is still alive after `timeout` seconds."""
        until = time.monotonic() + timeout
        while self.is_running():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def record_launch(self, pid: int) -> None:
        """Record a process that was started as the application."""
        self.make()
        with suppress(psutil.Error):  # it has ended already
            write_value(self._launched_file, _LAUNCHES, LaunchedProcess(pid, psutil.Process(pid).create_time()))

    def starting_process(self) -> LaunchedProcess | None:
        """Return the process that was started and is not the application yet: loading its code takes seconds."""
        launched, heartbeat = read_value(self._launched_file, _LAUNCHES), self.heartbeat()
        if launched is None or (heartbeat is not None and heartbeat["started_at"] >= launched.started_at):
            return None
        return launched if launched.is_alive else None

    def is_running(self) -> bool:
        """Return whether an application of this job is alive on this machine."""
        try:
            with (self.path / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    @contextmanager
    def application_lock(self) -> Iterator[None]:
        """Hold the lock of the job's application while inside; raises `AlreadyRunningError`."""
        self.make()
        with (self.path / LOCK).open("a+") as lock:
            until = time.monotonic() + _PROBE_SECONDS
            while not _try_lock(lock):
                if time.monotonic() > until:
                    raise AlreadyRunningError(
                        f"the application of job {self.path.name!r} is already running: {self.path}"
                    )
                time.sleep(0.02)
            yield


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
