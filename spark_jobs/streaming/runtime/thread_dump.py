"""Where each thread of an application is: written to its log before one that hangs is ended."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

_WRITING_SECONDS = 1.0  # that one process has, at most
_QUIET_SECONDS = 0.1  # after which it has written all


def tell_stacks_when_asked() -> None:
    """Let this process write them to stderr on SIGUSR2."""
    faulthandler.register(signal.SIGUSR2, all_threads=True)


def ask_for_stacks(pid: int) -> None:
    """Have a process, and all that it has started, write them; to be killed after that: some die of being asked.

    One after the other, since they share a log, and write a word at a time.
    """
    with suppress(psutil.Error):
        application = psutil.Process(pid)
        for process in (application, *application.children(recursive=True)):
            with suppress(psutil.Error):
                before = _written(process)
                if process.pid == os.getpid():
                    faulthandler.dump_traceback(all_threads=True)
                else:
                    process.send_signal(signal.SIGQUIT if process.name() == "java" else signal.SIGUSR2)
                    _await_all_of(process, before)


def _await_all_of(process: psutil.Process, before: int) -> None:
    deadline = time.monotonic() + _WRITING_SECONDS
    while time.monotonic() < deadline and process.status() != psutil.STATUS_ZOMBIE:
        last = _written(process)
        time.sleep(_QUIET_SECONDS)
        if before < last == _written(process):
            return


def _written(process: psutil.Process) -> int:
    """Bytes in the log that it writes to; 0 where that is no file."""
    try:
        return Path(f"/proc/{process.pid}/fd/2").stat().st_size
    except OSError:
        return 0
