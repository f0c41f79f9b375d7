"""Sends failed records again at a user's request: as new records at the end of the job's topic.

They have the key, the headers and the timestamp that they had. Only the stamp of another job is left out: a record that
has one is a result of that job once more.

Which were sent is recorded in the job's folder, so that none is sent twice. This is written last: a process that dies
before may have sent a record without recording it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import RecordRefusedError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import read_value, write_value
from springline.spark_jobs.streaming.runtime.encoding import CUT, MISSING, NULL
from springline.spark_jobs.streaming.runtime.message import Headers
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord
from springline.spark_jobs.streaming.runtime.stamps import HEADER as STAMP
from springline.spark_jobs.streaming.runtime.topic_union import topics_of
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
    """The attributes used of a job, whether its records are tracked or not."""

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def dead_letters(self) -> str: ...

    @property
    def tracking(self) -> TrackingConfig | None: ...


@dataclass(frozen=True)
class PlannedRetry:
    """A dead letter that is to be sent again, or why it is not (`refusal`)."""

    failure: Failure
    refusal: str = ""


def replay_times(folder: JobFolder) -> Mapping[str, float]:
    """Return when dead letters were sent again, in seconds since 1970; the oldest entries first."""
    return read_value(folder.path / _FILE, _NOTES) or {}


def refusal_reason(job: Replayable, failure: Failure, sent: Mapping[str, float]) -> str:
    """Return why a record cannot be sent again; empty if it can."""
    if job.tracking is not None and job.tracking.foreign:
        return "clients of a tracker retry their roots themselves"
    if failure.derived:
        return "it is derived from source records, which are still in the topic"
    if failure.topic not in topics_of(job.topic):
        return f"it came from {failure.topic}, which the job does not read"
    if failure.record in sent:
        return "it was already retried"
    if failure.content_note == MISSING:
        return "its content was no longer in the source when it failed"
    if failure.content_note.startswith(CUT):
        return (
            f"it is too large for the dead-letter queue, where it is {failure.content_note}; the record itself is at "
            f"offset {failure.offset} of partition {failure.partition} of {failure.topic}"
        )
    return ""


def plan_retries(
    log: MessageLog, job: Replayable, folder: JobFolder, records: Iterable[str]
) -> tuple[PlannedRetry, ...]:
    """Return what a retry of these dead letters would do, each once; raises `UnknownFailureError`."""
    sent = replay_times(folder)
    bounds = {topic: log.offset_bounds(topic) for topic in topics_of(job.topic)}

    def plan(record: str) -> PlannedRetry:
        failure = failure_at(log, job.dead_letters, record)
        reason = refusal_reason(job, failure, sent)
        if not reason and failure.partition not in bounds[failure.topic]:
            reason = f"{failure.topic} has no partition {failure.partition}"
        return PlannedRetry(failure, reason)

    return tuple(plan(record) for record in dict.fromkeys(records))


def retry_dead_letters(
    log: MessageLog, job: Replayable, folder: JobFolder, records: Iterable[str], now: float
) -> tuple[PlannedRetry, ...]:
    """Send the records of dead letters to their original partitions, and record that; returns what was done.

    A record that its topic does not take stops no other one. Raises `UnknownFailureError`, and what the log raises.
    """
    retries: list[PlannedRetry] = []
    with folder.lock(_LOCK):
        try:
            for each in plan_retries(log, job, folder, records):
                retries.append(each if each.refusal else _retry(log, each.failure))
        finally:
            if accepted := [each.failure.record for each in retries if not each.refusal]:
                sent = replay_times(folder)
                newest = islice(sent.items(), max(0, len(sent) + len(accepted) - _NOTED), None)
                write_value(folder.path / _FILE, _NOTES, {**dict(newest), **dict.fromkeys(accepted, now)})
    return tuple(retries)


def _retry(log: MessageLog, failure: Failure) -> PlannedRetry:
    headers = Headers((name, value) for name, value in failure.headers if name != STAMP)
    record = OutgoingRecord(
        failure.topic, failure.partition, failure.content, headers, failure.key, failure.timestamp,
        is_null=failure.content_note == NULL,
    )  # fmt: skip
    try:
        with log.record_sender() as sending:
            sending.send(record)
    except RecordRefusedError as error:
        return PlannedRetry(failure, str(error))
    return PlannedRetry(failure)


def retry_dead_letter(log: MessageLog, job: Replayable, folder: JobFolder, record: str, now: float) -> Failure:
    """Send one record, as `retry_dead_letters`; raises `RetryRefusedError` too."""
    (planned,) = retry_dead_letters(log, job, folder, (record,), now)
    if planned.refusal:
        raise RetryRefusedError(f"{job.name}, dead letter {record}: not retried: {planned.refusal}")
    return planned.failure
