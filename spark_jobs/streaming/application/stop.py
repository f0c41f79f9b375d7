"""Stops jobs in parallel: each ends after its current round; one that does not end in time is killed."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Collection, Sequence

import psutil

from springline.spark_jobs.streaming.application.process_family import application_of, family_of, is_alive, send
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.job_folder import JobFolder

Say = Callable[[str], None]

TERMINATE_SECONDS = 10.0  # from SIGTERM until SIGKILL
KILLED_SECONDS = 10.0  # for killed processes to end
_POLL_SECONDS = 0.1
_SAY_SECONDS = 10.0  # after which the jobs still waited for are reported


def running_folders(folders: Collection[JobFolder]) -> list[JobFolder]:
    """Return the folders of those jobs whose application is alive or starting."""
    return [folder for folder in folders if folder.is_running() or folder.starting_process() is not None]


def stop_all(folders: Collection[JobFolder], timeout: float, say: Say) -> list[JobFolder]:
    """Ask all running jobs to stop, and wait for all of them; returns those still alive after `timeout` seconds."""
    left = running_folders(folders)
    started_at = time.monotonic()
    said = False
    while left:
        for folder in left:
            if not folder.stop_file.exists():  # a starting application discards requests to the previous one
                folder.request_stop()
        running = running_folders(left)
        for folder in left:
            if folder not in running:
                say(f"{folder.path.name}: {_describe_end(folder)}")
        left = running
        waited = time.monotonic() - started_at
        if not left or waited > timeout:
            break
        if waited > _SAY_SECONDS and not said:
            names = ", ".join(folder.path.name for folder in left)
            say(f"{names}: asked to stop, still running; waiting up to {timeout:g} s …")
            said = True
        time.sleep(_POLL_SECONDS)
    return left


def end_by_force(folders: Sequence[JobFolder], say: Say) -> list[JobFolder]:
    """Kill the applications with all that they have started, by SIGTERM, then SIGKILL; returns those still alive."""
    left = running_folders(folders)
    families: dict[str, set[psutil.Process]] = {}
    for number, seconds in ((signal.SIGTERM, TERMINATE_SECONDS), (signal.SIGKILL, KILLED_SECONDS)):
        for folder in left:
            name = folder.path.name
            application = application_of(read_status(name, folder, time.time()))
            family = families.setdefault(name, set())
            if application is not None:
                family |= family_of(application)
                say(f"{name}: has not ended; {number.name} to process group {application.pid} and all it has started")
            send(number, {process for process in family if is_alive(process)})
        until = time.monotonic() + seconds
        while (left := [each for each in left if _has_live_process(each, families)]) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
    for folder in folders:
        if folder not in left:
            shutil.rmtree(folder.scratch, ignore_errors=True)
    return left


def _has_live_process(folder: JobFolder, families: dict[str, set[psutil.Process]]) -> bool:
    return bool(running_folders([folder])) or any(is_alive(process) for process in families[folder.path.name])


def _describe_end(folder: JobFolder) -> str:
    """Describe how a job has ended that was asked to stop."""
    status = read_status(folder.path.name, folder, time.time())
    return "stopped" if status.state == "stopped" else f"ended, {status.state} {status.error}".rstrip()
