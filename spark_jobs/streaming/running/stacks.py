"""Where each thread of an application is: written to its log before one that hangs is ended."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from contextlib import suppress

import psutil

_WRITING_SECONDS = 1.0  # for all that they have to write


def tell_stacks_when_asked() -> None:
    """Let this process write them to stderr on SIGUSR2."""
    faulthandler.register(signal.SIGUSR2, all_threads=True)


def ask_for_stacks(pid: int) -> None:
    """Have a process, and all that it has started, write them; to be killed after that: some die of being asked."""
    with suppress(psutil.Error):
        application = psutil.Process(pid)
        for process in (application, *application.children(recursive=True)):
            with suppress(psutil.Error):
                if process.pid == os.getpid():
                    faulthandler.dump_traceback(all_threads=True)
                else:
                    process.send_signal(signal.SIGQUIT if process.name() == "java" else signal.SIGUSR2)
        time.sleep(_WRITING_SECONDS)
