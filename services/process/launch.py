"""Runs the commands of a server: its processes in sessions of their own, and what must run once before them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from springline.services.errors import DataExistsError, NotReadyError
from springline.services.log_files import fresh
from springline.services.process.groups import TOKEN, start_time
from springline.services.process.run_state import Started
from springline.services.server import Once, Process, Server


def spawn(server: Server, process: Process, token: str, log: Path) -> Started:
    """Start one process; what it prints goes to `log`."""
    with _launching(server, process, token, log) as how:
        child = subprocess.Popen(**how, start_new_session=True)
    # A child that has ended already has no start time; then any will do, since it leads nothing.
    return Started(process.name, child.pid, start_time(child.pid) or 0.0, str(log), int(process.stop))


def run_once(server: Server, once: Once, token: str, log: Path) -> None:
    """Run a command to its end and remember that it ended well.

    Raises `NotReadyError` if it did not, and `DataExistsError`.
    """
    _make_room(server, once)
    once.marker.touch()
    with _launching(server, once, token, log) as how:
        code = subprocess.run(**how, check=False).returncode
    if code:
        raise NotReadyError(f"{server.name}: {once.name} ended with {code}", [log])
    once.marker.replace(once.stamp)


def _make_room(server: Server, once: Once) -> None:
    """Remove what a command that was cut short left behind; raises `DataExistsError` if it may be more than that."""
    folder = once.makes
    if folder is None or not folder.exists() or not any(folder.iterdir()):
        return
    if not once.marker.exists():
        raise DataExistsError(
            f"{server.name}: {folder} holds data, and {once.stamp}, which tells that they are whole, is missing: "
            f"nothing was changed. If they are whole, make that file: touch {once.stamp}\n"
            f"Else move the folder away, and {server.name} begins with an empty one."
        )
    shutil.rmtree(folder)


@contextmanager
def _launching(server: Server, what: Process | Once, token: str, log: Path) -> Iterator[dict[str, Any]]:
    """How a command of the server is run: where, as whom, in which environment; it prints to the end of `log`.

    To its end, so that the log of a server that runs can be emptied.
    """
    with fresh(log).open("ab") as out:
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
            raise NotReadyError(f"{server.name}: {what.command[0]} cannot be run: {error}") from error
