"""Sends records that failed again, when a person asks for that: as new records at the end of the job's topic.

Which were sent is noted in the job's folder, so that none is sent twice. The note is written last: whoever dies before
may have sent a record that is not noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Protocol

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.message_log import Letter, Log
from springline.spark_jobs.streaming.tracking.config import Tracked
from springline.spark_jobs.streaming.tracking.errors import RetryRefusedError
from springline.spark_jobs.streaming.tracking.replay.failures import Failure, failure_at

_FILE, _LOCK = "resent.json", "resent.lock"
_NOTED = 100_000  # newest letters
_NOTES: Codec[dict[str, float]] = Codec(
    dict[str, float],
    1,
    "the note of what was sent again",
    "remove the file; what it told of can then be sent once more",
)


class Replayable(Protocol):
    """What is asked here of a job whose records are tracked."""

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def dead(self) -> str: ...

    @property
    def tracked(self) -> Tracked: ...


def resent(folder: JobFolder) -> Mapping[str, float]:
    """When which letters were sent again, in seconds since 1970; those that were noted first are first."""
    return read_value(folder.path / _FILE, _NOTES) or {}


def trouble_with(job: Replayable, failure: Failure, sent: Mapping[str, float]) -> str:
    """Why a record cannot be sent again; empty if it can."""
    if job.tracked.foreign:
        return "its roots are begun again by those who began them"
    if failure.derived:
        return "it is what came of some records, and these are in the topic"
    if failure.topic != job.topic:
        return f"it came from {failure.topic}, which the job does not read"
    if failure.letter in sent:
        return "it was sent again already"
    if not failure.content:
        return "its content was not there any more when it was given up"
    return ""


def send_again(log: Log, job: Replayable, folder: JobFolder, letter: str, now: float) -> Failure:
    """Send the record of a dead letter to the partition that it came from, and note it.

    Raises `UnknownFailureError`, `RetryRefusedError`, and what the log raises.
    """
    failure = failure_at(log, job.dead, letter)
    with folder.locked(_LOCK):
        sent = resent(folder)
        trouble = trouble_with(job, failure, sent)
        if not trouble and failure.partition not in log.extents(job.topic):
            trouble = f"{job.topic} has no partition {failure.partition} any more"
        if trouble:
            raise RetryRefusedError(f"{job.name}, letter {letter}: not sent: {trouble}")
        with log.sending() as sending:
            sending.send(Letter(job.topic, failure.partition, failure.content))
        newest = islice(sent.items(), max(0, len(sent) + 1 - _NOTED), None)
        write_value(folder.path / _FILE, _NOTES, {**dict(newest), letter: now})
    return failure
