"""Runs the commands of a server: its processes in sessions of their own, and what must run once before them."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from services.errors import NotReady
from services.processes import TOKEN, start_time
from services.record import Started
from services.server import Once, Process, Server

_TAIL = 30  # lines of a log that an error shows


def spawn(server: Server, process: Process, token: str, log: Path) -> Started:
    """Start one process; what it prints goes to `log`."""
    with _launching(server, process, token, log) as how:
        child = subprocess.Popen(**how, start_new_session=True)
    # A child that has ended already has no start time; then any will do, since it leads nothing.
    return Started(process.name, child.pid, start_time(child.pid) or 0.0, str(log), int(process.stop))


def run_once(server: Server, once: Once, token: str, log: Path) -> None:
    """Run a command to its end and remember that it ended well; raises `NotReady` if it did not."""
    with _launching(server, once, token, log) as how:
        code = subprocess.run(**how, check=False).returncode
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


@contextmanager
def _launching(server: Server, what: Process | Once, token: str, log: Path) -> Iterator[dict[str, Any]]:
    """How a command of the server is run: where, as whom, in which environment; it prints to `log`."""
    with fresh(log).open("wb") as out:
        how: dict[str, Any] = {
            "args": what.command,
            "cwd": server.folder,
            "env": {**os.environ, **server.environment, **what.environment, TOKEN: token},
            "stdin": subprocess.DEVNULL,
            "stdout": out,
            "stderr": out,
        }
        if server.user:
            user = pwd.getpwnam(server.user)
            how |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        try:
            yield how
        except OSError as error:
            raise NotReady(f"{server.name}: {what.command[0]} cannot be run: {error}") from error
