"""The way of an application until it works: what it waits for, whether it gets on, and when that is given up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from springline.spark_jobs.streaming.application.status import Seen, look
from springline.spark_jobs.streaming.application.stop import living
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder

_LOOK_SECONDS = 0.2
_SAY_SECONDS = 10.0  # between two lines
_TAIL_BYTES = 4096


@dataclass
class Startup:
    """What was seen of a start, and since when nothing has changed; times in seconds of any one clock."""

    patience: float
    progress: object = None
    progress_at: float = 0.0
    ended_looks: int = 0  # in a row: between two of its files an application may seem to have ended once

    def wait_for(self, seen: Seen, now: float) -> str:
        """What is still waited for, in words; empty once it works. Raises `StreamError` where waiting is in vain.

        The patience is for silence: it begins anew with each phase, each state that is rebuilt, each round.
        """
        if seen.works:
            return ""
        rounds = tuple((stage, told["round"], told["at"]) for stage, told in sorted(seen.stages.items()))
        progress = (seen.state in ("running", "silent"), seen.pid, seen.phase, rounds)
        if progress != self.progress:
            self.progress, self.progress_at = progress, now
        lives = seen.pid is not None or seen.state == "starting"
        self.ended_looks = 0 if lives else self.ended_looks + 1
        if self.ended_looks > 1:
            raise StreamError(f"it has ended: {seen.error or f'it is {seen.state}'}")
        waits = _say_wait(seen)
        if (silent := now - self.progress_at) > self.patience:
            raise StreamError(f"{waits}, and nothing has changed for {silent:.0f} s")
        return waits


def start_and_wait(
    job: str, folder: JobFolder, patience: float, say: Callable[[str], None], launch: Callable[[str, JobFolder], object]
) -> Seen:
    """Start a job that does not live, wait until it works, and say now and then what for.

    Raises `StreamError`, with the job's log, where that is in vain.
    """
    logged = folder.log_file.stat().st_size if folder.log_file.exists() else 0
    before = None
    if not living([folder]):
        before = (folder.heartbeat() or {}).get("began")
        launch(job, folder)
    startup = Startup(patience)
    said, said_at = "", time.monotonic()
    try:
        while waits := startup.wait_for(seen := _look(job, folder, before), time.monotonic()):
            if waits != said and time.monotonic() - said_at > _SAY_SECONDS:
                say(f"{job}: {waits} …")
                said, said_at = waits, time.monotonic()
            time.sleep(_LOOK_SECONDS)
    except StreamError as error:
        last = _last_line(folder, logged)
        raise StreamError(
            f"{job}: {error}; its log: {folder.log_file}{f', which ends: {last}' if last else ''}"
        ) from None
    return seen


def _look(job: str, folder: JobFolder, before: float | None) -> Seen:
    """Look at the job; of one that has ended and told nothing, what the one before has told says nothing."""
    seen = look(job, folder, time.time())
    if seen.pid is None and before is not None and (folder.heartbeat() or {}).get("began") == before:
        return Seen(job, "dead", "before it told anything")
    return seen


def _say_wait(seen: Seen) -> str:
    """What an application waits for that lives, or what its stages do."""
    if seen.phase:
        return f"starting: {seen.phase}"
    if seen.state in ("starting", "silent", "running") and not seen.stages:
        return f"it is {seen.state}"
    began = seen.began or 0.0
    first = [stage for stage, told in seen.stages.items() if told["at"] <= began]
    return f"it runs, and the first round of {', '.join(first)} has not ended" if first else f"it is {seen.state}"


def _last_line(folder: JobFolder, offset: int) -> str:
    """The last line that was logged since the log had so many bytes; empty where there is none."""
    try:
        with folder.log_file.open("rb") as log:
            log.seek(max(offset, log.seek(0, 2) - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:400]
