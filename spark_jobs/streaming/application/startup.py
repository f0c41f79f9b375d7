"""Waits for the start of an application: detects progress, and decides when to give up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.application.stop import running_folders
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder

_POLL_SECONDS = 0.2
_SAY_SECONDS = 10.0  # between two status lines
_TAIL_BYTES = 4096


@dataclass
class Startup:
    """Observed progress of a start, and the time of the last progress, in seconds of any one clock."""

    timeout: float
    progress: object = None
    progress_at: float = 0.0
    ended_polls: int = 0  # in a row: between writing two of its files, an application may appear ended once

    def wait_for(self, status: JobStatus, now: float) -> str:
        """Return what is still waited for, as text; empty once the job runs. Raises `StreamError` if the start has
        failed.

        The timeout is for lack of progress: it restarts with each phase, each rebuilt state, each round.
        """
        if status.is_ready:
            return ""
        rounds = tuple(
            (stage, fields["round"], fields["round_ended_at"]) for stage, fields in sorted(status.stages.items())
        )
        progress = (status.state in ("running", "silent"), status.pid, status.phase, rounds)
        if progress != self.progress:
            self.progress, self.progress_at = progress, now
        is_alive = status.pid is not None or status.state == "starting"
        self.ended_polls = 0 if is_alive else self.ended_polls + 1
        if self.ended_polls > 1:
            raise StreamError(f"it has ended: {status.error or f'it is {status.state}'}")
        waits = _describe_wait(status)
        if (silent := now - self.progress_at) > self.timeout:
            raise StreamError(f"{waits}, without progress for {silent:.0f} s")
        return waits


def start_and_wait(
    job: str, folder: JobFolder, timeout: float, say: Callable[[str], None], launch: Callable[[str, JobFolder], object]
) -> JobStatus:
    """Start a job that is not running and wait until it runs, reporting through `say` now and then what it waits for.

    Raises `StreamError`, with the job's log file, if the start has failed.
    """
    logged = folder.log_file.stat().st_size if folder.log_file.exists() else 0
    earlier_start = None
    if not running_folders([folder]):
        earlier_start = (folder.heartbeat() or {}).get("started_at")
        launch(job, folder)
    startup = Startup(timeout)
    said, said_at = "", time.monotonic()
    try:
        while waits := startup.wait_for(status := _read_new_status(job, folder, earlier_start), time.monotonic()):
            if waits != said and time.monotonic() - said_at > _SAY_SECONDS:
                say(f"{job}: {waits} …")
                said, said_at = waits, time.monotonic()
            time.sleep(_POLL_SECONDS)
    except StreamError as error:
        last = _last_line(folder, logged)
        raise StreamError(f"{job}: {error}; log: {folder.log_file}{f', last line: {last}' if last else ''}") from None
    return status


def _read_new_status(job: str, folder: JobFolder, earlier_start: float | None) -> JobStatus:
    """Return the status of the job, ignoring the heartbeat of the application before the one that was just started."""
    status = read_status(job, folder, time.time())
    if (
        status.pid is None
        and earlier_start is not None
        and (folder.heartbeat() or {}).get("started_at") == earlier_start
    ):
        return JobStatus(job, "dead", "it has ended before its first heartbeat")
    return status


def _describe_wait(status: JobStatus) -> str:
    """Describe what a running application waits for, or what its stages do."""
    if status.phase:
        return status.phase
    if status.state in ("starting", "silent", "running") and not status.stages:
        return f"it is {status.state}"
    began = status.started_at or 0.0
    first = [stage for stage, fields in status.stages.items() if fields["round_ended_at"] <= began]
    return f"it runs; waiting for the first round of {', '.join(first)}" if first else f"it is {status.state}"


def _last_line(folder: JobFolder, offset: int) -> str:
    """Return the last line logged after byte `offset` of the log; empty if there is none."""
    try:
        with folder.log_file.open("rb") as log:
            log.seek(max(offset, log.seek(0, 2) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:400]
