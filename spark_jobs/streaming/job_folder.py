"""A job's folder: what its application, its supervisors and its users tell each other.

heartbeat.json     how the job is, written by the application with every round
stop               present: the application ends at a round's boundary
hold               present: the first stage waits, so that the others come up with it
savepoint.json     a savepoint that is asked for, and what became of it
lease              touched by who supervises the application
launched.json      the process that was started last to be the application
starts.json        when it was started for which DAG run
lock               held by the application as long as it lives
log                what the application prints
scratch            what Spark keeps in files; gone when the next application begins
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from springline.persistence.model.codec import Codec
from springline.persistence.private_files import private_folder
from springline.spark_jobs.streaming.errors import AlreadyRunningError, UnknownSavepointError
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value

STOP: str = "stop"
"""The file of a job's folder in whose presence no stage begins another round: the job comes to its end."""
HOLD: str = "hold"
"""The file of a job's folder in whose presence the stages that read its own topic wait, so that others come up."""
LOCK, LOG = "lock", "log"
_LOOKERS_SECONDS = 1.0  # who only looks whether a job runs holds its lock for a moment


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that was started to be a job's application: its id, and when, in seconds since 1970."""

    pid: int
    at: float

    @property
    def lives(self) -> bool:
        """Whether it does; another process that has its id by now is not it."""
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            return bool(process.create_time() == self.at and process.status() != psutil.STATUS_ZOMBIE)
        return False


@dataclass(frozen=True, slots=True)
class _AskedSavepoint:
    """A savepoint: whether it is asked for and not made yet, and why it was not made."""

    name: str
    asked: bool
    trouble: str = ""


_HEARTBEATS: Codec[dict[str, Any]] = Codec(
    dict[str, Any], 1, "the heartbeat of a job", "remove the file, and it is told again when the job is started"
)
_LAUNCHES: Codec[Launched] = Codec(
    Launched, 1, "the process that was started for a job", "end it if it lives, and remove the file"
)
_SAVEPOINTS: Codec[_AskedSavepoint] = Codec(
    _AskedSavepoint, 1, "the savepoint that is asked for", "remove the file, and ask for the savepoint again"
)


class JobFolder:
    """The folder of one job.

    Args:
        path: where it is; `make` makes it.

    Example:
        >>> job = JobFolder(folder / "words")
        >>> job.ask_to_stop()
        >>> job.stop_file.exists(), job.runs()
        (True, False)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stop_file = path / STOP
        self.hold_file = path / HOLD
        self._savepoint_file = path / "savepoint.json"
        self.log_file = path / LOG
        self.lease_file = path / "lease"
        self.scratch = path / "scratch"
        self.starts_file = path / "starts.json"
        self._launched_file = path / "launched.json"

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock of this name while inside, after whoever has it; the folder is made where it is not there."""
        self.make()
        with (self.path / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def make(self) -> None:
        """Make the folder, for its owner alone, and the one of all jobs; nothing happens if they are there."""
        private_folder(self.path.parent)
        private_folder(self.path)

    def beat(self, told: dict[str, Any]) -> None:
        """Write the heartbeat."""
        write_value(self.path / "heartbeat.json", _HEARTBEATS, told)

    def heartbeat(self) -> dict[str, Any] | None:
        """The last heartbeat; None if there was none. Raises `DecodeError`."""
        return read_value(self.path / "heartbeat.json", _HEARTBEATS)

    def ask_to_stop(self) -> None:
        """Let the application end when the rounds that are planned are through."""
        self.make()
        self.stop_file.touch()

    def begin(self) -> None:
        """Forget what an application before was asked for, and what it left in its scratch folder."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        for file in (self.stop_file, self.hold_file, self._savepoint_file):
            file.unlink(missing_ok=True)

    def ask_savepoint(self, name: str) -> None:
        """Let the application make a savepoint; raises `UnknownSavepointError` while it makes another one."""
        if (other := self.asked_savepoint()) is not None:
            raise UnknownSavepointError(
                f"{self.path.name}: savepoint {other!r} is being made; try again when it is there"
            )
        write_value(self._savepoint_file, _SAVEPOINTS, _AskedSavepoint(name, asked=True))

    def asked_savepoint(self) -> str | None:
        """The savepoint that is asked for and not made yet."""
        told = read_value(self._savepoint_file, _SAVEPOINTS)
        return told.name if told is not None and told.asked else None

    def answer_savepoint(self, name: str, trouble: str = "") -> None:
        """Tell that a savepoint is made, or why not."""
        write_value(self._savepoint_file, _SAVEPOINTS, _AskedSavepoint(name, asked=False, trouble=trouble))

    def savepoint_trouble(self) -> str:
        """Why the last savepoint was not made; empty if it was."""
        told = read_value(self._savepoint_file, _SAVEPOINTS)
        return "the application has ended" if told is None else told.trouble

    def await_end(self, patience: float) -> bool:
        """Wait until the application has ended; False if it lives after so many seconds."""
        until = time.monotonic() + patience
        while self.runs():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def note_launch(self, pid: int) -> None:
        """A process was started that is to be the application."""
        self.make()
        with suppress(psutil.Error):  # it has ended already
            write_value(self._launched_file, _LAUNCHES, Launched(pid, psutil.Process(pid).create_time()))

    def coming(self) -> Launched | None:
        """The process that was started and is not the application yet: to load its code takes some seconds."""
        launched, beat = read_value(self._launched_file, _LAUNCHES), self.heartbeat()
        if launched is None or (beat is not None and beat["began"] >= launched.at):
            return None
        return launched if launched.lives else None

    def runs(self) -> bool:
        """Whether an application of this job lives on this machine."""
        try:
            with (self.path / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the job's application while inside; raises `AlreadyRunningError`."""
        self.make()
        with (self.path / LOCK).open("a+") as lock:
            until = time.monotonic() + _LOOKERS_SECONDS
            while not _locked(lock):
                if time.monotonic() > until:
                    raise AlreadyRunningError(f"the application of job {self.path.name!r} runs already: {self.path}")
                time.sleep(0.02)
            yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
