"""Whether a port of 127.0.0.1 is free, who holds it if not, and whether somebody listens there."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection, Mapping
from typing import Any

import psutil

from springline.persistence.text.redaction import redacted
from springline.services.errors import PortInUseError

_CONNECT_SECONDS = 2.0


def is_free(port: int) -> bool:
    """A server could listen on 127.0.0.1:`port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def listens(port: int) -> bool:
    """Somebody takes connections on 127.0.0.1:`port` now."""
    try:
        with socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS):
            return True
    except OSError:
        return False


def free_ports(count: int = 1) -> int:
    """The first of `count` ports in a row that are all free at the moment, below those that clients are given.

    A client that goes on calling a server that is down on one of theirs may be given that very port, connect
    to itself, and keep the server from coming back.
    """
    candidates = random.sample(range(20000, 32000 - count), 1000)
    return next(first for first in candidates if all(is_free(first + offset) for offset in range(count)))


def listener(port: int) -> int | None:
    """The id of the process that listens on `port`; None if there is none, or the operating system does not tell."""
    listening = (each.pid for each in _sockets(port) or () if each.status == psutil.CONN_LISTEN and each.pid)
    return next(listening, None)


def holder(port: int) -> int | None:
    """The id of the process that has `port`, listeners first; None where the operating system does not tell."""
    having = sorted(_sockets(port) or (), key=lambda each: each.status != psutil.CONN_LISTEN)
    return next((each.pid for each in having if each.pid), None)


def told(pid: int) -> str:
    """A process in words."""
    try:
        command = redacted(" ".join(psutil.Process(pid).cmdline()))
    except psutil.Error:
        command = "?"
    return f"process {pid}: {command[:120]}"


def to_wait_for(server: str, ports: Mapping[str, int], ours: Collection[int] = ()) -> str:
    """Which port cannot be taken yet though nobody listens on it, in words; empty if all are free.

    Raises `PortInUseError`, naming the holder and the setting to change, if somebody else than `ours` (ids) listens.
    After a server was killed, what is left of its connections may keep a port for a minute; a server that is
    started meanwhile could not listen there either. A listener without a process is about to end, or another user's.
    """
    for setting, port in ports.items():
        if is_free(port):
            continue
        sockets = _sockets(port)
        listening = [each for each in sockets or () if each.status == psutil.CONN_LISTEN]
        if any(each.pid in ours for each in listening if each.pid):
            continue
        if sockets is None or any(each.pid for each in listening):
            raise taken(server, setting, port)
        if listening:
            return f"port {port} is held by a process that ends or that belongs to another user"
        by = f" ({told(pid)})" if (pid := holder(port)) is not None else ""
        return f"nobody listens on port {port}, but old connections still have it{by}"
    return ""


def _sockets(port: int) -> list[Any] | None:
    """Every TCP socket of this machine at `port`; None where the operating system does not tell."""
    try:
        return [each for each in psutil.net_connections(kind="tcp") if each.laddr and each.laddr.port == port]
    except (psutil.AccessDenied, OSError):
        return None


def check_ours(server: str, ports: Mapping[str, int], ours: Collection[int]) -> None:
    """Raise `PortInUseError` if another process than `ours` (ids) listens: it was quicker, and answers in our place."""
    for setting, port in ports.items():
        if (pid := listener(port)) is not None and pid not in ours:
            raise taken(server, setting, port)


def taken(server: str, setting: str, port: int) -> PortInUseError:
    """The error that names the holder of a port and the setting to change."""
    pid = holder(port)
    by, how = (f" (by {told(pid)})", f" (kill {pid})") if pid is not None else ("", "")
    name = setting.partition(" ")[0]  # without " + 2", for the third of several in a row
    return PortInUseError(
        f"{server}: port {port} is taken{by}. End that process{how}, or choose another port: {name}=…", pid
    )
