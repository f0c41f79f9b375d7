"""Dumps the stacks of all threads of an application to its log before it is killed for hanging."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

_WRITING_SECONDS = 1.0  # for one process, at most
_QUIET_SECONDS = 0.1  # without output, after which a dump is complete


def dump_stacks_on_signal() -> None:
    """Install a handler that dumps the stacks of this process to stderr on SIGUSR2."""
    faulthandler.register(signal.SIGUSR2, all_threads=True)


def request_thread_dump(pid: int) -> None:
    """Dump the stacks of a process and all its descendants; kill them afterwards, since some do not survive the signal.

    One process after the other, since they share a log and write in small pieces.
    """
    with suppress(psutil.Error):
        application = psutil.Process(pid)
        for process in (application, *application.children(recursive=True)):
            with suppress(psutil.Error):
                before = _written_bytes(process)
                if process.pid == os.getpid():
                    faulthandler.dump_traceback(all_threads=True)
                else:
                    process.send_signal(signal.SIGQUIT if process.name() == "java" else signal.SIGUSR2)
                    _await_written(process, before)


def _await_written(process: psutil.Process, before: int) -> None:
    deadline = time.monotonic() + _WRITING_SECONDS
    while time.monotonic() < deadline and process.status() != psutil.STATUS_ZOMBIE:
        last = _written_bytes(process)
        time.sleep(_QUIET_SECONDS)
        if before < last == _written_bytes(process):
            return


def _written_bytes(process: psutil.Process) -> int:
    """Return the size of the log that it writes to; 0 if that is not a file."""
    try:
        return Path(f"/proc/{process.pid}/fd/2").stat().st_size
    except OSError:
        return 0
