"""Stops jobs, all at once: each comes to rest at the end of a round; one that does not in time is ended by force."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Collection, Sequence

import psutil

from springline.spark_jobs.streaming.application.process_family import application_of, family_of, is_alive, send
from springline.spark_jobs.streaming.application.status import look
from springline.spark_jobs.streaming.job_folder import JobFolder

Say = Callable[[str], None]

TERMINATE_SECONDS = 10.0  # from SIGTERM until SIGKILL
KILLED_SECONDS = 10.0  # for what was killed to be gone
_LOOK_SECONDS = 0.1
_SAY_SECONDS = 10.0  # after which it is said what is waited for


def living(folders: Collection[JobFolder]) -> list[JobFolder]:
    """Those of the jobs whose application lives, or is about to."""
    return [folder for folder in folders if folder.runs() or folder.coming() is not None]


def stop_all(folders: Collection[JobFolder], patience: float, say: Say) -> list[JobFolder]:
    """Ask all that live to stop, and wait for them together; those that live after so many seconds."""
    left = living(folders)
    begun = time.monotonic()
    said = False
    while left:
        for folder in left:
            if not folder.stop_file.exists():  # an application that begins forgets what the one before was asked for
                folder.ask_to_stop()
        lives = living(left)
        for folder in left:
            if folder not in lives:
                say(f"{folder.path.name}: {_say_end(folder)}")
        left = lives
        waited = time.monotonic() - begun
        if not left or waited > patience:
            break
        if waited > _SAY_SECONDS and not said:
            names = ", ".join(folder.path.name for folder in left)
            say(f"{names}: asked to stop, still running; waiting up to {patience:g} s …")
            said = True
        time.sleep(_LOOK_SECONDS)
    return left


def end_by_force(folders: Sequence[JobFolder], say: Say) -> list[JobFolder]:
    """End the applications with all that they have started, by SIGTERM, then SIGKILL; those that live even so."""
    left = living(folders)
    families: dict[str, set[psutil.Process]] = {}
    for number, seconds in ((signal.SIGTERM, TERMINATE_SECONDS), (signal.SIGKILL, KILLED_SECONDS)):
        for folder in left:
            name = folder.path.name
            application = application_of(look(name, folder, time.time()))
            family = families.setdefault(name, set())
            if application is not None:
                family |= family_of(application)
                say(f"{name}: does not end; {number.name} to process group {application.pid} and all it has started")
            send(number, {process for process in family if is_alive(process)})
        until = time.monotonic() + seconds
        while (left := [each for each in left if _is_there(each, families)]) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
    for folder in folders:
        if folder not in left:
            shutil.rmtree(folder.scratch, ignore_errors=True)
    return left


def _is_there(folder: JobFolder, families: dict[str, set[psutil.Process]]) -> bool:
    return bool(living([folder])) or any(is_alive(process) for process in families[folder.path.name])


def _say_end(folder: JobFolder) -> str:
    """How a job has ended that was asked to stop."""
    seen = look(folder.path.name, folder, time.time())
    return "stopped" if seen.state == "stopped" else f"ended, {seen.state} {seen.error}".rstrip()
