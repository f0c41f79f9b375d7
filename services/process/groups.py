"""Finds the processes of a started server, and terminates them by process group.

A process id alone is not sufficient, since ids are reused. A process belongs to a record if it is in a session that the
record started. While the session leader lives, identified by its start time, the session is certainly that one. An id
is not reused while a session has it, so if another process has the leader's id, the session is unrelated. After the
leader has ended, a process counts only if its environment has the record's token or its working folder is the server's
(a process that renames itself overwrites its environment).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from springline.services.process.run_state import ProcessRecord, ServerRecord

TOKEN = "SPRINGLINE_SERVICE_TOKEN"
_TOLERANCE = 1.0  # seconds, for rounding of start times


def orphaned_processes(home: Path, recorded_tokens: Collection[str]) -> tuple[psutil.Process, ...]:
    """Return every running process that servers of `home` have started, and whose token is not in `recorded_tokens`.

    Such processes have a token in their environment and a working folder below the home, even if that was deleted.
    """
    orphans = []
    for process in psutil.process_iter():
        try:
            token = process.environ().get(TOKEN)
            if (
                token
                and token not in recorded_tokens
                and Path(process.cwd()).is_relative_to(home)
                and not _has_ended(process)
            ):
                orphans.append(process)
        except (psutil.Error, OSError):
            continue  # another user's, or it has ended
    return tuple(orphans)


def groups_of(processes: Iterable[psutil.Process]) -> set[int]:
    """Return the process group ids of the processes that still run, except this process's group."""
    groups = set()
    for process in processes:
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(process.pid))
    return groups - {os.getpgid(0)}


def start_time(pid: int) -> float | None:
    """Return the start time of process `pid`, or None if it does not exist or is a zombie."""
    try:
        process = psutil.Process(pid)
        return None if _has_ended(process) else float(process.create_time())
    except psutil.Error:
        return None


def _has_ended(process: psutil.Process) -> bool:
    """Return whether a process is a zombie without threads; killed, it may have threads that still hold its ports."""
    return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)


def is_leader(process: ProcessRecord) -> bool:
    """Return whether the recorded process still runs, that is, its id has not been reused."""
    now = start_time(process.pid)
    return now is not None and abs(now - process.started_at) <= _TOLERANCE


def members(record: ServerRecord) -> tuple[psutil.Process, ...]:
    """Return every running process of the server: the session leaders, and all other processes in their sessions."""
    alive = {each.pid: start_time(each.pid) for each in record.processes}
    ours = {each.pid for each in record.processes if is_leader(each)}
    processes = []
    for process in psutil.process_iter():
        try:
            session = os.getsid(process.pid)
            if session not in alive or _has_ended(process):
                continue
            if session in ours or (alive[session] is None and _belongs_to(process, record)):
                processes.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
        except (psutil.AccessDenied, PermissionError):
            continue  # another user's
    return tuple(processes)


def _belongs_to(process: psutil.Process, record: ServerRecord) -> bool:
    if process.create_time() < min(each.started_at for each in record.processes) - _TOLERANCE:
        return False
    return bool(process.environ().get(TOKEN) == record.token or process.cwd() == record.folder)


def resident_bytes(record: ServerRecord, *, shared: bool = True) -> dict[str, int]:
    """Return the resident memory of each process of the server with its children, in bytes, by name.

    Shared memory counts fully in each process (RSS); with `shared` false, proportionally (PSS).
    """
    sizes = {}
    for leader in record.processes:
        if not is_leader(leader):
            continue
        leader_record = replace(record, processes=(leader,))
        # Some servers start each child in a new session.
        family = {*members(leader_record), *_children(leader.pid)}
        sizes[leader.name] = sum(_memory(process, shared) for process in family)
    return sizes


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def _memory(process: psutil.Process, shared: bool) -> int:
    try:
        return int(process.memory_info().rss if shared else process.memory_full_info().pss)
    except psutil.Error:
        return 0


@dataclass(frozen=True)
class Termination:
    """The result of terminating a server: the processes that were killed, and those of them that still run."""

    killed: tuple[psutil.Process, ...] = ()
    survivors: tuple[psutil.Process, ...] = ()


def terminate(record: ServerRecord, patience: float, sleep: Callable[[float], None] = time.sleep) -> Termination:
    """Send every process group of the server its stop signal, and SIGKILL after `patience` seconds."""
    remaining: set[psutil.Process] = set()
    killed: tuple[psutil.Process, ...] = ()
    stops = {each.pid: each.stop_signal for each in record.processes}
    for kill, seconds in ((False, patience), (True, 10.0)):
        remaining |= set(members(record))
        killed = tuple(remaining) if kill else ()
        _send_signals(remaining, {} if kill else stops)
        until = time.monotonic() + seconds
        # An ending process no longer shows its environment, so processes that were found stay in the set.
        while remaining := {process for process in remaining | set(members(record)) if _is_alive(process)}:
            if time.monotonic() >= until:
                break
            sleep(0.1)
    return Termination(killed, tuple(remaining))


def _send_signals(processes: Iterable[psutil.Process], stops: Mapping[int, int]) -> None:
    """Send each process group the signal that `stops` has for its session, by default SIGKILL."""
    groups = {}
    for process in processes:
        try:
            groups[os.getpgid(process.pid)] = stops.get(os.getsid(process.pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    for group, number in groups.items():
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            continue


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and not _has_ended(process))
    except psutil.Error:
        return False
