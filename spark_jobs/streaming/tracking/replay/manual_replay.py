"""Sends failed records again at a user's request: as new records at the end of the job's topic.

Which were sent is recorded in the job's folder, so that none is sent twice. This is written last: a process that dies
before may have sent a record without recording it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Protocol

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord
from springline.spark_jobs.streaming.tracking.config import TrackingConfig
from springline.spark_jobs.streaming.tracking.errors import RetryRefusedError
from springline.spark_jobs.streaming.tracking.replay.failures import Failure, failure_at

_FILE, _LOCK = "retried.json", "retried.lock"
_NOTED = 100_000  # newest dead letters
_NOTES: Codec[dict[str, float]] = Codec(
    dict[str, float],
    1,
    "the list of retried records",
    "remove the file; the records that it lists can then be retried again",
)


class Replayable(Protocol):
    """The attributes used of a job whose records are tracked."""

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def dead_letters(self) -> str: ...

    @property
    def tracking(self) -> TrackingConfig: ...


def replay_times(folder: JobFolder) -> Mapping[str, float]:
    """Return when dead letters were sent again, in seconds since 1970; the oldest entries first."""
    return read_value(folder.path / _FILE, _NOTES) or {}


def refusal_reason(job: Replayable, failure: Failure, sent: Mapping[str, float]) -> str:
    """Return why a record cannot be sent again; empty if it can."""
    if job.tracking.foreign:
        return "clients of a tracker retry their roots themselves"
    if failure.derived:
        return "it is derived from source records, which are still in the topic"
    if failure.topic != job.topic:
        return f"it came from {failure.topic}, which the job does not read"
    if failure.record in sent:
        return "it was already retried"
    if not failure.content:
        return "its content was no longer in the source when it failed"
    return ""


def retry_dead_letter(log: MessageLog, job: Replayable, folder: JobFolder, record: str, now: float) -> Failure:
    """Send the record of a dead letter to its original partition, and record that.

    Raises `UnknownFailureError`, `RetryRefusedError`, and what the log raises.
    """
    failure = failure_at(log, job.dead_letters, record)
    with folder.lock(_LOCK):
        sent = replay_times(folder)
        reason = refusal_reason(job, failure, sent)
        if not reason and failure.partition not in log.offset_bounds(job.topic):
            reason = f"{job.topic} has no partition {failure.partition}"
        if reason:
            raise RetryRefusedError(f"{job.name}, dead letter {record}: not retried: {reason}")
        with log.record_sender() as sending:
            sending.send(OutgoingRecord(job.topic, failure.partition, failure.content))
        newest = islice(sent.items(), max(0, len(sent) + 1 - _NOTED), None)
        write_value(folder.path / _FILE, _NOTES, {**dict(newest), record: now})
    return failure
