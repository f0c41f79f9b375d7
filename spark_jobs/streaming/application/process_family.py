"""Finds the application of a job with all processes that it has started, and sends signals to exactly these."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress

import psutil

from springline.spark_jobs.streaming.application.status import JobStatus

_TOLERANCE = 1.0  # seconds, for rounding of the clock


def application_of(status: JobStatus) -> psutil.Process | None:
    """Return the process of a job's application; None if it has ended, even if another process has its id now."""
    with suppress(psutil.Error):
        if status.pid is not None and status.started_at is not None:
            process = psutil.Process(status.pid)
            return process if process.create_time() <= status.started_at + _TOLERANCE and is_alive(process) else None
    return None


def family_of(application: psutil.Process) -> set[psutil.Process]:
    """Return the application and all that it has started: its descendants, and all processes of its session.

    Spark's Python workers have their own process group, and lose their parent with the JVM.
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
    """Send a signal to each of these processes, and to a process group as a whole if its leader is one of them."""
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
    """Return whether a process has not ended; a zombie has ended."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
