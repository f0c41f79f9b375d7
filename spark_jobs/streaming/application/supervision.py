"""Keeps a job's application running within limits: decides from its status, then starts or kills it.

A job has one application: the lock in the job's folder refuses a second one, and Kafka fences one on another machine. A
supervised application ends by itself after a round if its lease has expired: its DAG run has ended, or comes back late
and starts it again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.application.process_family import application_of, family_of, send
from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.thread_dump import request_thread_dump

LEASE = "SPRINGLINE_STREAM_LEASE"  # seconds; in the environment of an application that is supervised
_DOUBLINGS = 2


@dataclass(frozen=True)
class Limits:
    """When to give up a job: after more than `restarts` starts within `window_seconds`; and when to consider it stuck.

    An application without a heartbeat, or with a stage that is not paused and has not completed a round, for
    `silence_seconds` seconds is killed and restarted: a stage without messages completes a round every second. After
    recent restarts the timeout is doubled, then quadrupled: on an overloaded machine, restarts only add load.
    """

    restarts: int = 5
    window_seconds: float = 600.0
    silence_seconds: float = 120.0

    def recent_starts(self, starts: Sequence[float], now: float) -> int:
        """Return how many of the starts are within the window."""
        return sum(start > now - self.window_seconds for start in starts)

    def silence_timeout(self, starts: Sequence[float], now: float) -> float:
        """Return the seconds without progress after which a job with these starts is considered stuck."""
        recent_restarts = max(0, self.recent_starts(starts, now) - 1)
        return self.silence_seconds * (1 << min(recent_restarts, _DOUBLINGS))


@dataclass(frozen=True)
class _Starts:
    """When a job was started for a DAG run, in seconds since 1970."""

    run: str
    starts: tuple[float, ...]


_STARTS: Codec[_Starts] = Codec(_Starts, 1, "the starts of a job", "remove the file; counting restarts")


class SupervisorAction(StrEnum):
    """What the supervisor does with a job."""

    WAIT = "wait"
    START = "start"
    RESTART = "restart"  # kill the hanging application first
    FINISHED = "finished"
    GIVE_UP = "give-up"


@dataclass(frozen=True)
class SupervisorDecision:
    """What the supervisor does with a job, and why, as text."""

    action: SupervisorAction
    reason: str


def decide_action(status: JobStatus, starts: Sequence[float], now: float, limits: Limits) -> SupervisorDecision:
    """Decide what to do with a job that should run; `starts` are the times at which it was started for this DAG run."""
    if status.state == "stopped" and not status.error and starts:
        return SupervisorDecision(SupervisorAction.FINISHED, "it was asked to stop")
    if status.state in ("starting", "running", "silent"):
        idle_seconds, what = _longest_idle(status, now)
        if idle_seconds > limits.silence_timeout(starts, now):
            return _start_or_give_up(SupervisorAction.RESTART, f"{what} for {idle_seconds:.0f} s", starts, now, limits)
        return SupervisorDecision(
            SupervisorAction.WAIT, f"it is {status.state}{f': {status.phase}' if status.phase else ''}"
        )
    return _start_or_give_up(SupervisorAction.START, status.error or f"it is {status.state}", starts, now, limits)


def _longest_idle(status: JobStatus, now: float) -> tuple[float, str]:
    """Return the longest time in seconds without a heartbeat or a completed round, and of what."""
    began = now if status.started_at is None else status.started_at
    idle = [(now - max(began, status.heartbeat_at), f"no heartbeat{f' ({status.phase})' if status.phase else ''}")]
    if status.state != "starting":
        moved = {
            stage: max(began, fields["round_ended_at"])
            for stage, fields in status.stages.items()
            if not fields.get("paused")
        }
        idle += [(now - moved_at, f"{stage} has completed no round") for stage, moved_at in moved.items()]
    return max(idle)


def _start_or_give_up(
    action: SupervisorAction, reason: str, starts: Sequence[float], now: float, limits: Limits
) -> SupervisorDecision:
    if (recent_starts := limits.recent_starts(starts, now)) > limits.restarts:
        return SupervisorDecision(
            SupervisorAction.GIVE_UP, f"{reason}; started {recent_starts} times within {limits.window_seconds:g} s"
        )
    return SupervisorDecision(action, reason)


def launch(
    job: str, folder: JobFolder, *, lease: float = 0.0, environment: Mapping[str, str] = os.environ
) -> subprocess.Popen[bytes]:
    """Start a job's application as a process that outlives the caller; with `lease` seconds, it is supervised."""
    folder.make()
    renew_lease(folder)
    with folder.log_file.open("ab") as log:
        application = subprocess.Popen(
            [sys.executable, "-m", "springline", "stream", "run", job],
            env={**environment, **({LEASE: str(lease)} if lease else {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    folder.record_launch(application.pid)
    return application


def kill_application(status: JobStatus, folder: JobFolder, *, timeout: float = 20.0) -> None:
    """Kill a hanging application and all that it has started, after dumping its stacks to its log."""
    application = application_of(status)
    if application is not None and (folder.is_running() or folder.starting_process() is not None):
        family = family_of(application)
        request_thread_dump(application.pid)
        send(signal.SIGKILL, family)
    folder.await_end(timeout)


def renew_lease(folder: JobFolder) -> None:
    """Renew the lease of a supervised application."""
    folder.lease_file.touch()


def is_abandoned(folder: JobFolder, now: float) -> bool:
    """Return whether this process is a supervised application whose lease has expired, or whose home was deleted."""
    lease = float(os.environ.get(LEASE, "0"))
    try:
        return bool(lease) and now - folder.lease_file.stat().st_mtime > lease
    except FileNotFoundError:
        return True


def read_starts(folder: JobFolder, run: str) -> list[float]:
    """Return when the job was started for a DAG run."""
    stored = read_value(folder.starts_file, _STARTS)
    return list(stored.starts) if stored is not None and stored.run == run else []


def record_start(folder: JobFolder, run: str, started_at: float) -> None:
    """Record a start of the job for a DAG run."""
    folder.make()
    write_value(folder.starts_file, _STARTS, _Starts(run, (*read_starts(folder, run), started_at)))
