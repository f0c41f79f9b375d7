"""Starts servers in separate sessions, records them in `run/`, and stops them by process group."""

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

from springline.persistence.private_files import create_private_folder
from springline.persistence.text.terminal import print
from springline.services.errors import (
    NotReadyError,
    PortInUseError,
    SettingsChangedError,
    StillRunningError,
    UnknownServerError,
)
from springline.services.process.groups import (
    groups_of,
    is_leader,
    members,
    orphaned_processes,
    resident_bytes,
    terminate,
)
from springline.services.process.launch import run_init_step, spawn
from springline.services.process.ports import check_ours, port_wait_reason
from springline.services.process.run_state import ServerRecord, ServerRecords
from springline.services.server import Server

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of one server; `processes` has process ids by name, `memory` the resident bytes by name."""

    server: str
    state: str  # "running", "stopped", or "partly running; stopped: NAMES"
    address: str
    processes: Mapping[str, int]
    memory: Mapping[str, int]

    @property
    def is_running(self) -> bool:
        """Whether all of its processes are running."""
        return self.state == "running"


class StopResult(IntEnum):
    """How a server was stopped."""

    NOT_RUNNING = 0
    ENDED = 1
    KILLED = 2  # it had not ended within `patience` seconds


class Supervisor:
    """Starts and stops servers, with records and logs under `home`."""

    def __init__(self, home: Path, say: Say = print, sleep: Callable[[float], None] = time.sleep) -> None:
        self._home = home
        self._records = ServerRecords(home / "run")
        self._say = say
        self._sleep = sleep

    def up(self, servers: Sequence[Server], patience: float) -> None:
        """Start those of the servers that are not running, in order, and wait until all are ready.

        Each may take `patience` seconds. If only some processes of a server have ended, only these are restarted. If
        anything fails, the processes started by this call are stopped; those that ran before keep running. Raises
        `ServiceError`.
        """
        started: dict[str, tuple[str, ...]] = {}
        start_times: dict[str, float] = {}
        pending = list(servers)
        try:
            for server in servers:
                dependencies = (*server.needs, *server.after)
                for dependency in [each for each in pending if each.name in dependencies and each.name in start_times]:
                    self._await(dependency, start_times[dependency.name], patience)
                    pending.remove(dependency)
                self._start(server, patience, started)
                start_times[server.name] = time.monotonic()  # measured after `_start`, which may download jars
            for server in pending:
                self._await(server, start_times[server.name], patience)
        except BaseException:
            for name, processes in started.items():
                with self._locked(name):
                    self._down(name, 5.0, processes)
            raise

    def down(self, name: str, patience: float) -> StopResult:
        """Stop every process of a server; raises `StillRunningError`, naming the processes that did not end."""
        with self._locked(name):
            return self._down(name, patience)

    def kill(self, name: str, process: str) -> None:
        """Kill one process of a server and its children with SIGKILL, to simulate a fault; `up` restarts it."""
        with self._locked(name):
            record = self._records.load(name)
            targets = () if record is None else tuple(each for each in record.processes if each.name == process)
            if record is None or not targets:
                process_names = ", ".join(each.name for each in record.processes) if record else "none"
                raise UnknownServerError(f"{name} has no process {process!r}; its processes: {process_names}")
            killed = tuple(replace(each, stop_signal=int(signal.SIGKILL)) for each in targets)
            terminate(replace(record, processes=killed), 10.0, self._sleep)

    def status(self, name: str) -> ServerStatus:
        """Return the status of a server."""
        record = self._records.load(name)
        if record is None:
            return ServerStatus(name, "stopped", "", {}, {})
        alive = {each.name: each.pid for each in record.processes if is_leader(each)}
        ended = [each.name for each in record.processes if each.name not in alive]
        if ended and not members(record):
            return ServerStatus(name, "stopped", record.address, {}, {})
        state = f"partly running; stopped: {', '.join(ended)}" if ended else "running"
        return ServerStatus(name, state, record.address, alive, resident_bytes(record))

    def started_servers(self) -> tuple[str, ...]:
        """Return the names of all servers that were started and not stopped."""
        return self._records.names()

    def logs(self, name: str) -> tuple[Path, ...]:
        """Return the log files of a server's newest start."""
        record = self._records.load(name)
        if record is not None:
            return tuple(Path(each.log) for each in record.processes)
        return tuple(sorted((self._home / "log" / name).glob("*.log")))

    def _start(self, server: Server, patience: float, started: dict[str, tuple[str, ...]]) -> None:
        """Start the processes of a server that are not running, and add them to `started`."""
        with self._locked(server.name):
            record = self._records.load(server.name)
            alive = {each.name: each for each in record.processes if is_leader(each)} if record else {}
            absent = tuple(process for process in server.processes if process.name not in alive)
            if record is not None:
                if alive and dict(record.ports) != dict(server.ports):
                    raise SettingsChangedError(_settings_conflict(server, record))
                if not absent:
                    return
                # Children of an ended process that are still in its session would conflict with the new one.
                self._down(server.name, 5.0, [each.name for each in record.processes if each.name not in alive])
            self._await_ports(server, record if alive else None, patience)
            self._make_folders(server)
            server.prepare()
            token = record.token if record is not None and alive else secrets.token_hex(8)
            for step in server.init_steps:
                if not step.stamp.exists():
                    self._say(f"{server.name}: {step.name} …")
                    run_init_step(server, step, token, self._log(server.name, step.name))
            running = dict(alive)
            for process in absent:
                running[process.name] = spawn(server, process, token, self._log(server.name, process.name))
                started[server.name] = (*started.get(server.name, ()), process.name)
                in_order = tuple(running[each.name] for each in server.processes if each.name in running)
                self._records.save(
                    ServerRecord(server.name, token, str(server.folder), server.address, server.ports, in_order)
                )

    def _await_ports(self, server: Server, record: ServerRecord | None, patience: float) -> None:
        """Wait until the ports are free of old connections; raises `PortInUseError` if another process listens."""
        ours = {process.pid for process in members(record)} if record else set()
        until = time.monotonic() + patience
        has_reported = False
        while busy := self._port_wait_reason(server, ours):
            if time.monotonic() > until:
                raise NotReadyError(f"{server.name}: {busy}, even after {patience:.0f} s")
            if not has_reported:
                self._say(f"{server.name}: {busy}; waiting …")
                has_reported = True
            self._sleep(0.25)

    def _port_wait_reason(self, server: Server, ours: Collection[int]) -> str:
        """Return the port to wait for, in words, or an empty text.

        Raises `PortInUseError`; if the holder is a server without a record, with the command that kills all such.
        """
        try:
            return port_wait_reason(server.name, server.ports, ours)
        except PortInUseError as error:
            orphans = self.orphaned_processes()
            if error.holder not in {process.pid for process in orphans}:
                raise
            groups = sorted(groups_of(orphans))
            raise PortInUseError(
                f"{error}\nIt was started here, but has no record in {self._home}; was that folder removed while "
                f"servers were running? Stop the remaining processes: kill -- "
                f"{' '.join(f'-{group}' for group in groups)}",
                error.holder,
            ) from None

    def _make_folders(self, server: Server) -> None:
        """Create the server's folder and the log folder, accessible to their owner only, except for another user's."""
        create_private_folder(self._home / "log")
        if server.user:
            server.folder.mkdir(parents=True, exist_ok=True)
        else:
            create_private_folder(server.folder)

    def _log(self, server: str, name: str) -> Path:
        return self._home / "log" / server / f"{name}.log"

    def _await(self, server: Server, started_at: float, patience: float) -> None:
        while problem := server.readiness_problem():
            record = self._records.load(server.name)
            for each in record.processes if record else ():
                if not is_leader(each):
                    raise NotReadyError(f"{server.name}: {each.name} exited before it was ready", [Path(each.log)])
            if time.monotonic() > started_at + patience:
                raise NotReadyError(f"{server.name}: not ready in time: {problem}", self.logs(server.name))
            self._sleep(0.25)
        if record := self._records.load(server.name):
            check_ours(server.name, record.ports, {process.pid for process in members(record)})
        server.provision()
        self._say(f"{server.name}: ready at {server.address} after {time.monotonic() - started_at:.0f} s")

    def _down(self, name: str, patience: float, only: Collection[str] | None = None) -> StopResult:
        """Stop a server's processes, or `only` some of them; the others stay in the record."""
        record = self._records.load(name)
        if record is None:
            return StopResult.NOT_RUNNING
        stopping = tuple(each for each in record.processes if only is None or each.name in only)
        remaining = tuple(each for each in record.processes if each not in stopping)
        stopping_record = replace(record, processes=stopping)
        was_running = bool(members(stopping_record))
        termination = terminate(stopping_record, patience, self._sleep)
        if termination.survivors:
            survivors = ", ".join(f"{process.pid} ({process.name()})" for process in termination.survivors)
            raise StillRunningError(f"{name}: these processes could not be stopped: {survivors}")
        if remaining:
            self._records.save(replace(record, processes=remaining))
        else:
            self._records.forget(name)
        if termination.killed:
            return StopResult.KILLED
        return StopResult.ENDED if was_running else StopResult.NOT_RUNNING

    def orphaned_processes(self) -> tuple[psutil.Process, ...]:
        """Return running processes that were started here, and that are in no record."""
        records = (self._records.load(name) for name in self._records.names())
        return orphaned_processes(self._home.resolve(), {record.token for record in records if record})

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        folder = self._home / "run"
        create_private_folder(folder)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _settings_conflict(server: Server, record: ServerRecord) -> str:
    current = ", ".join(f"{setting}={port}" for setting, port in record.ports.items())
    requested = ", ".join(f"{setting}={port}" for setting, port in server.ports.items())
    return (
        f"{server.name} is running with {current}, but the settings say {requested}. "
        f"Stop it first (springline down {server.name}), or set {current}."
    )
