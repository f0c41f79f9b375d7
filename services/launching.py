"""Runs the commands of a server: its processes in sessions of their own, and what must run once before them."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from services.errors import NotReady
from services.processes import TOKEN, start_time
from services.record import Started
from services.server import Once, Process, Server

_TAIL = 30  # lines of a log that an error shows


def spawn(server: Server, process: Process, token: str, log: Path) -> Started:
    """Start one process; what it prints goes to `log`."""
    with fresh(log).open("wb") as out:
        try:
            child = subprocess.Popen(
                process.command,
                env=_environment(server, process.environment, token),
                stdout=out,
                stderr=out,
                start_new_session=True,
                **_place(server),
            )
        except OSError as error:
            raise NotReady(f"{server.name}: {process.command[0]} cannot be run: {error}") from error
    # A child that has ended already has no start time; then any will do, since it leads nothing.
    return Started(process.name, child.pid, start_time(child.pid) or 0.0, str(log), int(process.stop))


def run_once(server: Server, once: Once, token: str, log: Path) -> None:
    """Run a command to its end and remember that it ended well; raises `NotReady` if it did not."""
    with fresh(log).open("wb") as out:
        try:
            code = subprocess.run(
                once.command,
                env=_environment(server, once.environment, token),
                stdout=out,
                stderr=out,
                check=False,
                **_place(server),
            ).returncode
        except OSError as error:
            raise NotReady(f"{server.name}: {once.command[0]} cannot be run: {error}") from error
    if code:
        raise NotReady(f"{server.name}: {once.name} ended with {code}\n{tail(log)}")
    once.stamp.touch()


def fresh(log: Path) -> Path:
    """Make room for a new log; the one before stays beside it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    return log


def tail(log: Path) -> str:
    """The end of a log file, headed by its name."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
    except FileNotFoundError:
        lines = ["(no such file)"]
    return "\n".join((f"--- end of {log}", *lines))


def _environment(server: Server, more: Mapping[str, str], token: str) -> dict[str, str]:
    return {**os.environ, **server.environment, **more, TOKEN: token}


def _place(server: Server) -> dict[str, Any]:
    """Where a command of the server runs, and as whom."""
    place: dict[str, Any] = {"cwd": server.folder, "stdin": subprocess.DEVNULL}
    if server.user:
        user = pwd.getpwnam(server.user)
        place |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return place
