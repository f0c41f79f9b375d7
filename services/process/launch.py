"""Runs the commands of a server: its processes in separate sessions, and its one-time initialisation steps."""

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
from springline.services.log_files import rotate_log
from springline.services.process.groups import TOKEN, start_time
from springline.services.process.run_state import ProcessRecord
from springline.services.server import InitStep, Process, Server


def spawn(server: Server, process: Process, token: str, log: Path) -> ProcessRecord:
    """Start one process, with its output redirected to `log`."""
    with _popen_arguments(server, process, token, log) as arguments:
        child = subprocess.Popen(**arguments, start_new_session=True)
    # A child that has already ended has no start time; any value will do, since it leads no session.
    return ProcessRecord(process.name, child.pid, start_time(child.pid) or 0.0, str(log), int(process.stop_signal))


def run_init_step(server: Server, step: InitStep, token: str, log: Path) -> None:
    """Run an initialisation step to its end, and record its success in its stamp file.

    Raises `NotReadyError` if it failed, and `DataExistsError`.
    """
    _clear_unfinished_output(server, step)
    step.marker.touch()
    with _popen_arguments(server, step, token, log) as arguments:
        code = subprocess.run(**arguments, check=False).returncode
    if code:
        raise NotReadyError(f"{server.name}: {step.name} ended with {code}", [log])
    step.marker.replace(step.stamp)


def _clear_unfinished_output(server: Server, step: InitStep) -> None:
    """Delete the output of an interrupted step; raises `DataExistsError` if it may be complete data."""
    folder = step.output_folder
    if folder is None or not folder.exists() or not any(folder.iterdir()):
        return
    if not step.marker.exists():
        raise DataExistsError(
            f"{server.name}: {folder} contains data, but {step.stamp}, which marks them as complete, is missing: "
            f"nothing was changed. If they are complete, create that file: touch {step.stamp}\n"
            f"Otherwise move the folder away, and {server.name} starts with an empty one."
        )
    shutil.rmtree(folder)


@contextmanager
def _popen_arguments(server: Server, task: Process | InitStep, token: str, log: Path) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `Popen` for a command of the server: folder, user, environment, output appended to `log`.

    Output is appended, so that the log of a running server can be truncated.
    """
    with rotate_log(log).open("ab") as out:
        arguments: dict[str, Any] = {
            "args": task.command,
            "cwd": server.folder,
            "env": {**os.environ, **server.environment, **task.environment, TOKEN: token},
            "stdin": subprocess.DEVNULL,
            "stdout": out,
            "stderr": out,
        }
        if server.user:
            user = pwd.getpwnam(server.user)
            arguments |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        try:
            yield arguments
        except OSError as error:
            raise NotReadyError(f"{server.name}: {task.command[0]} cannot be run: {error}") from error
