"""Starts servers, each in sessions of its own, remembers them in `run/`, and ends them by their groups' ids."""

from __future__ import annotations

import fcntl
import secrets
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import psutil

from springline.persistence.private_files import private_folder
from springline.persistence.text.terminal import print
from springline.services.errors import (
    NotReadyError,
    PortInUseError,
    SettingsChangedError,
    StillRunningError,
    UnknownServerError,
)
from springline.services.process.groups import end, groups_of, leads, left_over, members, resident
from springline.services.process.launch import run_once, spawn
from springline.services.process.ports import check_ours, to_wait_for
from springline.services.process.run_state import Record, Records
from springline.services.server import Server

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class State:
    """What `status` tells of one server; `memory` is what its processes hold, in bytes, by name."""

    server: str
    words: str  # "running", "stopped", or which of its processes ended
    address: str
    processes: Mapping[str, int]
    memory: Mapping[str, int]

    @property
    def running(self) -> bool:
        """Whether all of its processes run."""
        return self.words == "running"


class Ending(IntEnum):
    """How a server has ended."""

    NOT_RUNNING = 0
    ENDED = 1
    KILLED = 2  # it had not ended when the patience was over


class Supervisor:
    """Starts and ends servers whose records and logs lie under `home`."""

    def __init__(self, home: Path, say: Say = print, pause: Callable[[float], None] = time.sleep) -> None:
        self._home = home
        self._records = Records(home / "run")
        self._say = say
        self._pause = pause

    def up(self, servers: Sequence[Server], patience: float) -> None:
        """Start what does not run yet of these servers, in this order, then wait until all are ready.

        Each may take `patience` seconds. Of a server that lost processes, these are started again, and the others
        stay. If anything fails, what was started is ended, and what ran before stays.
        """
        started: dict[str, tuple[str, ...]] = {}
        begun: dict[str, float] = {}
        waiting = list(servers)
        try:
            for server in servers:
                before = (*server.needs, *server.after)
                for earlier in [each for each in waiting if each.name in before and each.name in begun]:
                    self._await(earlier, begun[earlier.name], patience)
                    waiting.remove(earlier)
                self._start(server, patience, started)
                begun[server.name] = time.monotonic()  # its jars may have had to be fetched first
            for server in waiting:
                self._await(server, begun[server.name], patience)
        except BaseException:
            for name, processes in started.items():
                with self._locked(name):
                    self._down(name, 5.0, processes)
            raise

    def down(self, name: str, patience: float) -> Ending:
        """End every process of a server; raises `StillRunningError`, naming what did not end."""
        with self._locked(name):
            return self._down(name, patience)

    def kill(self, name: str, process: str) -> None:
        """Kill one process of a server with all that it started, at once, as a fault would; `up` starts it again."""
        with self._locked(name):
            record = self._records.load(name)
            chosen = () if record is None else tuple(each for each in record.processes if each.name == process)
            if record is None or not chosen:
                there = ", ".join(each.name for each in record.processes) if record else "none"
                raise UnknownServerError(f"{name} has no process {process!r}; those that were started: {there}")
            killed = tuple(replace(each, stop=int(signal.SIGKILL)) for each in chosen)
            end(replace(record, processes=killed), 10.0, self._pause)

    def state(self, name: str) -> State:
        """Whether a server runs."""
        record = self._records.load(name)
        if record is None:
            return State(name, "stopped", "", {}, {})
        alive = {each.name: each.pid for each in record.processes if leads(each)}
        ended = [each.name for each in record.processes if each.name not in alive]
        if ended and not members(record):
            return State(name, "stopped", record.address, {}, {})
        words = f"partly running; ended: {', '.join(ended)}" if ended else "running"
        return State(name, words, record.address, alive, resident(record))

    def recorded(self) -> tuple[str, ...]:
        """The names of all servers that were started and not ended."""
        return self._records.names()

    def logs(self, name: str) -> tuple[Path, ...]:
        """The log files of a server, newest start."""
        record = self._records.load(name)
        if record is not None:
            return tuple(Path(each.log) for each in record.processes)
        return tuple(sorted((self._home / "log" / name).glob("*.log")))

    def _start(self, server: Server, patience: float, started: dict[str, tuple[str, ...]]) -> None:
        """Start the processes of a server that do not run, and note them in `started`."""
        with self._locked(server.name):
            record = self._records.load(server.name)
            alive = {each.name: each for each in record.processes if leads(each)} if record else {}
            absent = tuple(process for process in server.processes if process.name not in alive)
            if record is not None:
                if alive and dict(record.ports) != dict(server.ports):
                    raise SettingsChangedError(_other_settings(server, record))
                if not absent:
                    return
                # What an ended process left behind in its session would be in the way of the new one.
                self._down(server.name, 5.0, [each.name for each in record.processes if each.name not in alive])
            self._await_ports(server, record if alive else None, patience)
            self._make_folders(server)
            server.prepare()
            token = record.token if record is not None and alive else secrets.token_hex(8)
            for once in server.once:
                if not once.stamp.exists():
                    self._say(f"{server.name}: {once.name} …")
                    run_once(server, once, token, self._log(server.name, once.name))
            running = dict(alive)
            for process in absent:
                running[process.name] = spawn(server, process, token, self._log(server.name, process.name))
                started[server.name] = (*started.get(server.name, ()), process.name)
                in_order = tuple(running[each.name] for each in server.processes if each.name in running)
                self._records.save(
                    Record(server.name, token, str(server.folder), server.address, server.ports, in_order)
                )

    def _await_ports(self, server: Server, record: Record | None, patience: float) -> None:
        """Wait while nobody listens on a port that cannot be taken yet; raises `PortInUseError` if somebody does."""
        ours = {process.pid for process in members(record)} if record else set()
        until = time.monotonic() + patience
        said = False
        while busy := self._to_wait_for(server, ours):
            if time.monotonic() > until:
                raise NotReadyError(f"{server.name}: {busy}, after {patience:.0f} s still")
            if not said:
                self._say(f"{server.name}: {busy}; waiting for them to end …")
                said = True
            self._pause(0.25)

    def _to_wait_for(self, server: Server, ours: Collection[int]) -> str:
        """What is to be waited for.

        Raises `PortInUseError`: of a server that lost its record, with what ends all such.
        """
        try:
            return to_wait_for(server.name, server.ports, ours)
        except PortInUseError as error:
            left = self.left_over()
            if error.holder not in {process.pid for process in left}:
                raise
            groups = sorted(groups_of(left))
            raise PortInUseError(
                f"{error}\nIt was started here, and {self._home} does not tell of it any more: was that removed while "
                f"servers ran? This ends all that is left of them: kill -- {' '.join(f'-{group}' for group in groups)}",
                error.holder,
            ) from None

    def _make_folders(self, server: Server) -> None:
        """Where the server works and where its logs go, for their owner alone; another user's it gives away itself."""
        private_folder(self._home / "log")
        if server.user:
            server.folder.mkdir(parents=True, exist_ok=True)
        else:
            private_folder(server.folder)

    def _log(self, server: str, name: str) -> Path:
        return self._home / "log" / server / f"{name}.log"

    def _await(self, server: Server, begun: float, patience: float) -> None:
        while missing := server.ready():
            record = self._records.load(server.name)
            for each in record.processes if record else ():
                if not leads(each):
                    raise NotReadyError(f"{server.name}: {each.name} ended before it was ready", [Path(each.log)])
            if time.monotonic() > begun + patience:
                raise NotReadyError(f"{server.name}: not ready in time: {missing}", self.logs(server.name))
            self._pause(0.25)
        if record := self._records.load(server.name):
            check_ours(server.name, record.ports, {process.pid for process in members(record)})
        server.furnish()
        self._say(f"{server.name}: ready at {server.address} after {time.monotonic() - begun:.0f} s")

    def _down(self, name: str, patience: float, only: Collection[str] | None = None) -> Ending:
        """End a server's processes, or `only` some of them; the record keeps the others."""
        record = self._records.load(name)
        if record is None:
            return Ending.NOT_RUNNING
        going = tuple(each for each in record.processes if only is None or each.name in only)
        staying = tuple(each for each in record.processes if each not in going)
        leaving = replace(record, processes=going)
        ran = bool(members(leaving))
        ended = end(leaving, patience, self._pause)
        if ended.left:
            who = ", ".join(f"{process.pid} ({process.name()})" for process in ended.left)
            raise StillRunningError(f"{name}: these processes could not be ended: {who}")
        if staying:
            self._records.save(replace(record, processes=staying))
        else:
            self._records.forget(name)
        if ended.killed:
            return Ending.KILLED
        return Ending.ENDED if ran else Ending.NOT_RUNNING

    def left_over(self) -> tuple[psutil.Process, ...]:
        """Living processes that were started here, and that no record tells of."""
        records = (self._records.load(name) for name in self._records.names())
        return left_over(self._home.resolve(), {record.token for record in records if record})

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        folder = self._home / "run"
        private_folder(folder)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _other_settings(server: Server, record: Record) -> str:
    runs = ", ".join(f"{setting}={port}" for setting, port in record.ports.items())
    asked = ", ".join(f"{setting}={port}" for setting, port in server.ports.items())
    return (
        f"{server.name} runs with {runs}, and is asked for with {asked}. "
        f"End it first (springline down {server.name}), or set {runs}."
    )
