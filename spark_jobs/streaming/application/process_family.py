"""An application of a job with all the processes that it has started: found, and sent signals, and nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress

import psutil

from springline.spark_jobs.streaming.application.status import Seen

_TOLERANCE = 1.0  # seconds; the clock's rounding


def application_of(seen: Seen) -> psutil.Process | None:
    """The process that a job's application is; None where it has ended, though another one may have its id by now."""
    with suppress(psutil.Error):
        if seen.pid is not None and seen.began is not None:
            process = psutil.Process(seen.pid)
            return process if process.create_time() <= seen.began + _TOLERANCE and is_alive(process) else None
    return None


def family_of(application: psutil.Process) -> set[psutil.Process]:
    """The application and all that it has started: its children, and whatever is in the session that it opened.

    Spark's Python workers have a process group of their own, and lose their parent with the JVM.
    """
    family = {application}
    with suppress(psutil.Error):
        family |= set(application.children(recursive=True))
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == application.pid:
                family.add(process)
    return family


def send(number: signal.Signals, family: Collection[psutil.Process]) -> None:
    """Send a signal to each of these processes, to a group as a whole where one of them leads it; to no other one."""
    ids = {process.pid for process in family}
    signalled: set[int] = set()
    for process in family:
        with suppress(psutil.Error, ProcessLookupError):
            group = os.getpgid(process.pid)
            if group not in ids:
                process.send_signal(number)
            elif group not in signalled:
                signalled.add(group)
                os.killpg(group, number)


def is_alive(process: psutil.Process) -> bool:
    """Whether it has not ended; one that waits only to be reaped has."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
