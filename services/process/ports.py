"""Checks of ports on 127.0.0.1: whether one is free, which process holds it, and whether a process listens."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection, Mapping
from typing import Any

import psutil

from springline.persistence.text.redaction import redact_secrets
from springline.services.errors import PortInUseError

_CONNECT_SECONDS = 2.0


def is_free(port: int) -> bool:
    """Return whether a server could listen on 127.0.0.1:`port` now."""
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


def is_listening(port: int) -> bool:
    """Return whether a connection to 127.0.0.1:`port` is accepted now."""
    try:
        with socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS):
            return True
    except OSError:
        return False


def free_ports(count: int = 1) -> int:
    """Return the first of `count` consecutive ports that are all free now, below the range of ephemeral ports.

    A client that keeps connecting to a stopped server on an ephemeral port may be assigned that port itself, connect to
    itself, and prevent the server from starting again.
    """
    candidates = random.sample(range(20000, 32000 - count), 1000)
    return next(first for first in candidates if all(is_free(first + offset) for offset in range(count)))


def listener(port: int) -> int | None:
    """Return the id of the process that listens on `port`; None if there is none, or it cannot be determined."""
    listening = (each.pid for each in _sockets(port) or () if each.status == psutil.CONN_LISTEN and each.pid)
    return next(listening, None)


def holder(port: int) -> int | None:
    """Return the id of the process that uses `port`, a listener if any; None if it cannot be determined."""
    sockets = sorted(_sockets(port) or (), key=lambda each: each.status != psutil.CONN_LISTEN)
    return next((each.pid for each in sockets if each.pid), None)


def describe_process(pid: int) -> str:
    """Describe a process by id and command line."""
    try:
        command = redact_secrets(" ".join(psutil.Process(pid).cmdline()))
    except psutil.Error:
        command = "?"
    return f"process {pid}: {command[:120]}"


def port_wait_reason(server: str, ports: Mapping[str, int], ours: Collection[int] = ()) -> str:
    """Return which port is not available yet although no process listens on it, in words; empty if all are free.

    Raises `PortInUseError`, naming the holder and the setting to change, if a process not in `ours` (ids) listens.
    After a server was killed, remaining connections may occupy a port for a minute; a server that is started meanwhile
    could not listen on it. A listener without a known process is about to end, or belongs to another user.
    """
    for setting, port in ports.items():
        if is_free(port):
            continue
        sockets = _sockets(port)
        listening = [each for each in sockets or () if each.status == psutil.CONN_LISTEN]
        if any(each.pid in ours for each in listening if each.pid):
            continue
        if sockets is None or any(each.pid for each in listening):
            raise port_in_use(server, setting, port)
        if listening:
            return f"port {port} is used by a process that is terminating or belongs to another user"
        by = f" ({describe_process(pid)})" if (pid := holder(port)) is not None else ""
        return f"port {port} has no listener, but remaining connections still occupy it{by}"
    return ""


def _sockets(port: int) -> list[Any] | None:
    """Return all TCP sockets of this machine with local port `port`; None if they cannot be listed."""
    try:
        return [each for each in psutil.net_connections(kind="tcp") if each.laddr and each.laddr.port == port]
    except (psutil.AccessDenied, OSError):
        return None


def check_ours(server: str, ports: Mapping[str, int], ours: Collection[int]) -> None:
    """Raise `PortInUseError` if a process not in `ours` (ids) listens, which would answer in place of the server."""
    for setting, port in ports.items():
        if (pid := listener(port)) is not None and pid not in ours:
            raise port_in_use(server, setting, port)


def port_in_use(server: str, setting: str, port: int) -> PortInUseError:
    """Create the error that names the holder of a port and the setting to change."""
    pid = holder(port)
    by, how = (f" (by {describe_process(pid)})", f" (kill {pid})") if pid is not None else ("", "")
    name = setting.partition(" ")[0]  # without a suffix such as " + 2", of the third of consecutive ports
    return PortInUseError(
        f"{server}: port {port} is taken{by}. End that process{how}, or choose another port: {name}=…", pid
    )
