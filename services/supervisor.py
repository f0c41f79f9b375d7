"""Starts servers, each in sessions of its own, remembers them in `run/`, and ends them by their groups' ids."""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.errors import NotReady, OtherSettings, StillRunning
from services.ports import check_free, check_ours
from services.processes import TOKEN, end, leads, members, start_time
from services.record import Record, Records, Started
from services.server import Server

Say = Callable[[str], None]
_TAIL = 30  # lines of a log that an error shows


@dataclass(frozen=True, slots=True)
class State:
    """What `status` tells of one server."""

    server: str
    words: str  # "running", "stopped", or which of its processes ended
    address: str
    processes: Mapping[str, int]

    @property
    def running(self) -> bool:
        return self.words == "running"


class Supervisor:
    """Starts and ends servers whose records and logs lie under `home`."""

    def __init__(self, home: Path, say: Say = print, pause: Callable[[float], None] = time.sleep) -> None:
        self._home = home
        self._records = Records(home / "run")
        self._say = say
        self._pause = pause

    def up(self, servers: Sequence[Server], patience: float) -> None:
        """Start the servers that do not run yet, then wait until all are ready."""
        begun = time.monotonic()
        started: list[str] = []
        try:
            for server in servers:
                if self._start(server):
                    started.append(server.name)
            for server in servers:
                self._await(server, begun + patience)
                self._say(f"{server.name}: ready at {server.address} after {time.monotonic() - begun:.0f} s")
        except BaseException:
            for name in started:
                self.down(name, 5.0)
            raise

    def down(self, name: str, patience: float) -> bool:
        """End every process of a server; False if none ran. Raises `StillRunning`, naming what did not end."""
        with self._locked(name):
            return self._down(name, patience)

    def state(self, name: str) -> State:
        """Whether a server runs."""
        record = self._records.load(name)
        if record is None:
            return State(name, "stopped", "", {})
        alive = {each.name: each.pid for each in record.processes if leads(each)}
        ended = [each.name for each in record.processes if each.name not in alive]
        if not ended:
            return State(name, "running", record.address, alive)
        if not members(record):
            return State(name, "stopped", record.address, {})
        return State(name, f"partly running; ended: {', '.join(ended)}", record.address, alive)

    def recorded(self) -> tuple[str, ...]:
        """The names of all servers that were started and not ended."""
        return self._records.names()

    def logs(self, name: str) -> tuple[Path, ...]:
        """The log files of a server, newest start."""
        record = self._records.load(name)
        if record is not None:
            return tuple(Path(each.log) for each in record.processes)
        return tuple(sorted((self._home / "log" / name).glob("*.log")))

    def _start(self, server: Server) -> bool:
        with self._locked(server.name):
            record = self._records.load(server.name)
            if record is not None and all(leads(each) for each in record.processes):
                if dict(record.ports) != dict(server.ports):
                    raise OtherSettings(_other_settings(server, record))
                return False
            if record is not None:
                self._down(server.name, 5.0)
            check_free(server.name, server.ports)
            server.folder.mkdir(parents=True, exist_ok=True)
            server.prepare()
            token = secrets.token_hex(8)
            environment = {**os.environ, **server.environment, TOKEN: token}
            self._run_once(server, environment)
            begun: list[Started] = []
            for process in server.processes:
                begun.append(self._spawn(server, process.name, process.command, environment))
                self._records.save(
                    Record(server.name, token, str(server.folder), server.address, server.ports, tuple(begun))
                )
            return True

    def _run_once(self, server: Server, environment: Mapping[str, str]) -> None:
        for once in server.once:
            if once.stamp.exists():
                continue
            self._say(f"{server.name}: {once.name} …")
            log = self._fresh_log(server.name, once.name)
            with log.open("wb") as out:
                code = subprocess.run(
                    once.command,
                    cwd=server.folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    check=False,
                ).returncode
            if code:
                raise NotReady(f"{server.name}: {once.name} ended with {code}\n{tail(log)}")
            once.stamp.touch()

    def _spawn(self, server: Server, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Started:
        log = self._fresh_log(server.name, name)
        with log.open("wb") as out:
            child = subprocess.Popen(
                command,
                cwd=server.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        # A child that has ended already has no start time; then any will do, since it leads nothing.
        return Started(name, child.pid, start_time(child.pid) or 0.0, str(log))

    def _fresh_log(self, server: str, name: str) -> Path:
        log = self._home / "log" / server / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        return log

    def _await(self, server: Server, until: float) -> None:
        while missing := server.ready():
            record = self._records.load(server.name)
            for each in record.processes if record else ():
                if not leads(each):
                    raise NotReady(f"{server.name}: {each.name} ended before it was ready\n{tail(Path(each.log))}")
            if time.monotonic() > until:
                tails = "\n".join(tail(log) for log in self.logs(server.name))
                raise NotReady(f"{server.name}: not ready in time: {missing}\n{tails}")
            self._pause(0.25)
        if record := self._records.load(server.name):
            check_ours(server.name, record.ports, {process.pid for process in members(record)})

    def _down(self, name: str, patience: float) -> bool:
        record = self._records.load(name)
        if record is None:
            return False
        ran = bool(members(record))
        if left := end(record, patience, self._pause):
            who = ", ".join(f"{process.pid} ({process.name()})" for process in left)
            raise StillRunning(f"{name}: these processes could not be ended: {who}")
        self._records.forget(name)
        return ran

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        folder = self._home / "run"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def tail(log: Path) -> str:
    """The end of a log file, headed by its name."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
    except FileNotFoundError:
        lines = ["(no such file)"]
    return "\n".join((f"--- end of {log}", *lines))


def _other_settings(server: Server, record: Record) -> str:
    runs = ", ".join(f"{setting}={port}" for setting, port in record.ports.items())
    asked = ", ".join(f"{setting}={port}" for setting, port in server.ports.items())
    return (
        f"{server.name} runs with {runs}, and is asked for with {asked}. "
        f"End it first (python -m services down {server.name}), or set {runs}."
    )
