"""Keeps a job's application running within limits: decides from what is seen, then starts it or ends it.

There is one application a job: whoever starts a second one is refused by the lock in the job's folder, and one on
another machine is fenced off by Kafka. An application that is supervised ends by itself at a round's boundary when
nobody has renewed its lease for long: then its DAG run is gone, or comes back late and starts it again.
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
from springline.spark_jobs.streaming.application.status import Seen
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.thread_dump import ask_for_stacks

LEASE = "SPRINGLINE_STREAM_LEASE"  # seconds; in the environment of an application that is supervised
_DOUBLINGS = 2


@dataclass(frozen=True)
class Limits:
    """When a job is given up: more than `restarts` within `within` seconds; and when it is thought stuck.

    An application that has not beaten, or of which a stage has ended no round though nothing holds it, for `silent`
    seconds is ended and started again: a stage without messages ends one every second. One that was started again
    lately gets twice as long, then four times: where a machine is too busy, starting only adds to that.
    """

    restarts: int = 5
    within: float = 600.0
    silent: float = 120.0

    def lately(self, starts: Sequence[float], now: float) -> int:
        """How many of the starts count still."""
        return sum(start > now - self.within for start in starts)

    def patience(self, starts: Sequence[float], now: float) -> float:
        """Seconds after which a job that was started then is thought stuck."""
        again = max(0, self.lately(starts, now) - 1)
        return self.silent * (1 << min(again, _DOUBLINGS))


@dataclass(frozen=True)
class _Starts:
    """When a job was started for a DAG run, in seconds since 1970."""

    run: str
    starts: tuple[float, ...]


_STARTS: Codec[_Starts] = Codec(_Starts, 1, "the starts of a job", "remove the file, and they are counted anew")


class Verdict(StrEnum):
    """What is to be done with a job."""

    WAIT = "wait"
    START = "start"
    RESTART = "restart"  # end what hangs first
    DONE = "done"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class Decision:
    """What is to be done with a job, and why, in words."""

    verdict: Verdict
    why: str


def decide(seen: Seen, starts: Sequence[float], now: float, limits: Limits) -> Decision:
    """What is to be done with a job that is wanted; `starts` are the times at which it was started for this run."""
    if seen.state == "stopped" and not seen.error and starts:
        return Decision(Verdict.DONE, "it was asked to stop")
    if seen.state in ("starting", "running", "silent"):
        still, what = _longest(seen, now)
        if still > limits.patience(starts, now):
            return _again(Verdict.RESTART, f"{what} for {still:.0f} s", starts, now, limits)
        return Decision(Verdict.WAIT, f"it is {seen.state}{f': {seen.phase}' if seen.phase else ''}")
    return _again(Verdict.START, seen.error or f"it is {seen.state}", starts, now, limits)


def _longest(seen: Seen, now: float) -> tuple[float, str]:
    """For how many seconds the application, or the stage that has waited longest, has done nothing, and what."""
    began = now if seen.began is None else seen.began
    idle = [(now - max(began, seen.beaten), f"it has not beaten{f' ({seen.phase})' if seen.phase else ''}")]
    if seen.state != "starting":
        moved = {stage: max(began, told["at"]) for stage, told in seen.stages.items() if not told.get("held")}
        idle += [(now - at, f"{stage} has ended no round") for stage, at in moved.items()]
    return max(idle)


def _again(verdict: Verdict, why: str, starts: Sequence[float], now: float, limits: Limits) -> Decision:
    if (lately := limits.lately(starts, now)) > limits.restarts:
        return Decision(Verdict.GIVE_UP, f"{why}; started {lately} times within {limits.within:g} s")
    return Decision(verdict, why)


def launch(
    job: str, folder: JobFolder, *, lease: float = 0.0, environment: Mapping[str, str] = os.environ
) -> subprocess.Popen[bytes]:
    """Start a job's application as a process of its own, that outlives the caller; `lease` seconds: supervised."""
    folder.make()
    renew(folder)
    with folder.log_file.open("ab") as log:
        application = subprocess.Popen(
            [sys.executable, "-m", "springline", "stream", "run", job],
            env={**environment, **({LEASE: str(lease)} if lease else {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    folder.note_launch(application.pid)
    return application


def end(seen: Seen, folder: JobFolder, *, patience: float = 20.0) -> None:
    """Kill an application that hangs, with all that it started; where it hangs is in its log."""
    application = application_of(seen)
    if application is not None and (folder.runs() or folder.coming() is not None):
        family = family_of(application)
        ask_for_stacks(application.pid)
        send(signal.SIGKILL, family)
    folder.await_end(patience)


def renew(folder: JobFolder) -> None:
    """Tell a supervised application that it is still wanted."""
    folder.lease_file.touch()


def abandoned(folder: JobFolder, now: float) -> bool:
    """Whether this process is a supervised application whose lease has run out, or is gone with its home."""
    lease = float(os.environ.get(LEASE, "0"))
    try:
        return bool(lease) and now - folder.lease_file.stat().st_mtime > lease
    except FileNotFoundError:
        return True


def starts_of(folder: JobFolder, run: str) -> list[float]:
    """When the job was started for a run."""
    told = read_value(folder.starts_file, _STARTS)
    return list(told.starts) if told is not None and told.run == run else []


def note_start(folder: JobFolder, run: str, at: float) -> None:
    """Note that the job is started for a run."""
    folder.make()
    write_value(folder.starts_file, _STARTS, _Starts(run, (*starts_of(folder, run), at)))
