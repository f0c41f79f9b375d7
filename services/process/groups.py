"""Which processes belong to a started server, and ending them by their groups' ids.

A process id alone proves nothing, since ids are used again. A process belongs to a record if it is in a session
that the record opened. The session is known to be that one while its leader lives, known by its start time. An id
is not used again while a session bears it, so with another process under the leader's id the session is a stranger's.
With the leader gone, a process counts only if it carries the record's token or works in the server's folder (a
process that renames itself overwrites its environment).
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

from springline.services.process.run_state import Record, Started

TOKEN = "SPRINGLINE_SERVICE_TOKEN"
_TOLERANCE = 1.0  # seconds; the clock's rounding


def left_over(home: Path, known: Collection[str]) -> tuple[psutil.Process, ...]:
    """Every living process that servers of `home` have started, and that no record with a token in `known` tells of.

    They carry a token, and work below the home, also where it was removed under them.
    """
    found = []
    for process in psutil.process_iter():
        try:
            token = process.environ().get(TOKEN)
            if token and token not in known and Path(process.cwd()).is_relative_to(home) and not _ended(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # somebody else's, or it has ended
    return tuple(found)


def groups_of(processes: Iterable[psutil.Process]) -> set[int]:
    """The ids of the groups that processes are in, those that live still."""
    found = set()
    for process in processes:
        with suppress(ProcessLookupError):
            found.add(os.getpgid(process.pid))
    return found - {os.getpgid(0)}


def start_time(pid: int) -> float | None:
    """When process `pid` began, or None if there is none (one that has ended and is not yet reaped is none)."""
    try:
        process = psutil.Process(pid)
        return None if _ended(process) else float(process.create_time())
    except psutil.Error:
        return None


def _ended(process: psutil.Process) -> bool:
    """It waits only to be reaped. Killed, its first thread may be there while others still hold its ports."""
    return bool(process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)


def leads(started: Started) -> bool:
    """The process that was started then is the one that has its id now."""
    now = start_time(started.pid)
    return now is not None and abs(now - started.started) <= _TOLERANCE


def members(record: Record) -> tuple[psutil.Process, ...]:
    """Every living process of the server: the leaders and all that stayed in their sessions."""
    alive = {each.pid: start_time(each.pid) for each in record.processes}
    ours = {each.pid for each in record.processes if leads(each)}
    found = []
    for process in psutil.process_iter():
        try:
            session = os.getsid(process.pid)
            if session not in alive or _ended(process):
                continue
            if session in ours or (alive[session] is None and _descends(process, record)):
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
        except (psutil.AccessDenied, PermissionError):
            continue  # somebody else's
    return tuple(found)


def _descends(process: psutil.Process, record: Record) -> bool:
    if process.create_time() < min(each.started for each in record.processes) - _TOLERANCE:
        return False
    return bool(process.environ().get(TOKEN) == record.token or process.cwd() == record.folder)


def resident(record: Record, *, shared: bool = True) -> dict[str, int]:
    """Bytes that each process of the server holds in memory with all that it started, by name.

    What processes share counts in each of them; with `shared` false, each counts its part of it.
    """
    found = {}
    for started in record.processes:
        if not leads(started):
            continue
        alone = replace(record, processes=(started,))
        # Some servers give each child a session of its own.
        family = {*members(alone), *_children(started.pid)}
        found[started.name] = sum(_memory(process, shared) for process in family)
    return found


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
class Ended:
    """How the processes of a server have ended: those that had to be killed, and those of them that are left."""

    killed: tuple[psutil.Process, ...] = ()
    left: tuple[psutil.Process, ...] = ()


def end(record: Record, patience: float, pause: Callable[[float], None] = time.sleep) -> Ended:
    """Ask every group of the server to end, and kill what has not after `patience` seconds."""
    left: set[psutil.Process] = set()
    killed: tuple[psutil.Process, ...] = ()
    stops = {each.pid: each.stop for each in record.processes}
    for kill, seconds in ((False, patience), (True, 10.0)):
        left |= set(members(record))
        killed = tuple(left) if kill else ()
        _signal(left, {} if kill else stops)
        until = time.monotonic() + seconds
        # A process on its way out no longer shows whose it is, so those that were found are kept in sight.
        while left := {process for process in left | set(members(record)) if _lives(process)}:
            if time.monotonic() >= until:
                break
            pause(0.1)
    return Ended(killed, tuple(left))


def _signal(processes: Iterable[psutil.Process], stops: Mapping[int, int]) -> None:
    """Send each process group the signal that its session asks for; SIGKILL where it asks for none."""
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


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and not _ended(process))
    except psutil.Error:
        return False
