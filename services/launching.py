"""Runs the commands of a server: its processes in sessions of their own, and what must run once before them."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from services.errors import DataThere, NotReady
from services.processes import TOKEN, start_time
from services.record import Started
from services.server import Once, Process, Server

_TAIL = 30  # lines of a log that an error shows
_TAIL_BYTES = 64 << 10  # in which they are looked for
KEPT_BYTES = 16 << 20  # of the log of an earlier start


def spawn(server: Server, process: Process, token: str, log: Path) -> Started:
    """Start one process; what it prints goes to `log`."""
    with _launching(server, process, token, log) as how:
        child = subprocess.Popen(**how, start_new_session=True)
    # A child that has ended already has no start time; then any will do, since it leads nothing.
    return Started(process.name, child.pid, start_time(child.pid) or 0.0, str(log), int(process.stop))


def run_once(server: Server, once: Once, token: str, log: Path) -> None:
    """Run a command to its end and remember that it ended well; raises `NotReady` if it did not, and `DataThere`."""
    _make_room(server, once)
    once.marker.touch()
    with _launching(server, once, token, log) as how:
        code = subprocess.run(**how, check=False).returncode
    if code:
        raise NotReady(f"{server.name}: {once.name} ended with {code}\n{tail(log)}")
    once.marker.replace(once.stamp)


def _make_room(server: Server, once: Once) -> None:
    """Remove what a command that was cut short left behind; raises `DataThere` if it may be more than that."""
    folder = once.makes
    if folder is None or not folder.exists() or not any(folder.iterdir()):
        return
    if not once.marker.exists():
        raise DataThere(
            f"{server.name}: {folder} holds data, and {once.stamp}, which tells that they are whole, is missing: "
            f"nothing was changed. If they are whole, make that file: touch {once.stamp}\n"
            f"Else move the folder away, and {server.name} begins with an empty one."
        )
    shutil.rmtree(folder)


def fresh(log: Path) -> Path:
    """Make room for a new log; the end of the one before stays beside it, up to `KEPT_BYTES`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        earlier = log.replace(log.with_suffix(".log.1"))
        if earlier.stat().st_size > KEPT_BYTES:
            _cut(earlier)
    return log


def _cut(log: Path) -> None:
    """Leave only the end of a log that nobody writes to any more."""
    half = log.with_suffix(".half")
    with log.open("rb") as whole, half.open("wb") as end:
        whole.seek(-KEPT_BYTES, os.SEEK_END)
        shutil.copyfileobj(whole, end)
    half.replace(log)


def tail(log: Path) -> str:
    """The end of a log file, headed by its name; no more than that is read, however large the file is."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-_TAIL:]
    except FileNotFoundError:
        lines = ["(no such file)"]
    return "\n".join((f"--- end of {log}", *lines))


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
            raise NotReady(f"{server.name}: {what.command[0]} cannot be run: {error}") from error
