"""Whether a port of 127.0.0.1 is free, and who holds it if not."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection, Mapping

import psutil

from services.errors import PortTaken


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


def free_port() -> int:
    """A port that is free at the moment, below those that clients are given.

    A client that goes on calling a server that is down on one of theirs may be given that very port, connect
    to itself, and keep the server from coming back.
    """
    candidates = random.sample(range(20000, 32000), 1000)
    return next(port for port in candidates if is_free(port))


def listener(port: int) -> int | None:
    """The id of the process that listens on `port`; None if there is none, or the operating system does not tell."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.AccessDenied, OSError):
        return None
    listening = (c.pid for c in connections if c.status == psutil.CONN_LISTEN and c.laddr.port == port and c.pid)
    return next(listening, None)


def holder(port: int) -> str:
    """Who listens on `port`, in words; empty where the operating system does not tell."""
    if (pid := listener(port)) is None:
        return ""
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        command = "?"
    return f"process {pid}: {command[:120]}"


def check_free(server: str, ports: Mapping[str, int]) -> None:
    """Raise `PortTaken`, naming the holder and the setting to change, unless every port is free."""
    for setting, port in ports.items():
        if not is_free(port):
            raise taken(server, setting, port)


def check_ours(server: str, ports: Mapping[str, int], ours: Collection[int]) -> None:
    """Raise `PortTaken` if another process than `ours` (ids) listens: it was quicker, and answers in our place."""
    for setting, port in ports.items():
        if (pid := listener(port)) is not None and pid not in ours:
            raise taken(server, setting, port)


def taken(server: str, setting: str, port: int) -> PortTaken:
    """The error that names the holder of a port and the setting to change."""
    who = holder(port)
    by = f" (by {who})" if who else ""
    return PortTaken(f"{server}: port {port} is taken{by}. End that process, or choose another port: {setting}=…")
