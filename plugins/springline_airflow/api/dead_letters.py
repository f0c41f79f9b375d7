"""Dead letters over HTTP: the records that a job could not process, with reason and content, and their retry.

Every job with a dead-letter queue has them, whether its records are tracked or not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field, StringConstraints

from springline.airflow.api import access
from springline.airflow.api.request_fields import RequestBody
from springline.airflow.api.streams import JobDep, JobHandle
from springline.persistence.text.formatting import format_count
from springline.spark_jobs.streaming.errors import UnknownTopicError
from springline.spark_jobs.streaming.tracking.replay.failures import Failure, newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import (
    PlannedRetry,
    plan_retries,
    refusal_reason,
    replay_times,
    retry_dead_letters,
)

_log = logging.getLogger(__name__)
_read_router = APIRouter(prefix="/streams/{job}/dead-letters", dependencies=[Depends(access.require_job_read)])
_change_router = APIRouter(prefix="/streams/{job}/dead-letters", dependencies=[Depends(access.require_job_change)])

_MOST_CONTENT = 10_000  # bytes of a record that a response contains
_SEARCHED = 100_000  # newest dead letters among which a text is searched
_MOST_RETRIED = 1_000  # in one request

RecordPosition = Annotated[str, StringConstraints(pattern="^[0-9]{1,9}:[0-9]{1,19}$")]


class DeadLetter(BaseModel):
    """A record that a job could not process: its position in the source, which stage failed on it, why and when.

    `record` is its position in the dead-letter queue, `retried_at` when a user sent it again. `content` is its text, or
    its bytes as hexadecimal digits if they are not UTF-8 (`encoding`), cut after 10,000 of its `bytes`. `refusal` says
    why it cannot be retried; empty if it can be, by users with permission to change the job.
    """

    record: str = Field(examples=["0:17"])
    stage: str
    topic: str
    partition: int
    offset: int
    reason: str
    failed_at: datetime
    content: str
    encoding: Literal["text", "hex"]
    bytes: int
    retried_at: datetime | None = None
    refusal: str = ""


class DeadLetterList(BaseModel):
    """The newest dead letters, the newest last; `matching` is how many there are at the end of the queue."""

    dead_letters: Sequence[DeadLetter]
    matching: int


class RetryRequest(RequestBody):
    """The records to retry, by their positions in the dead-letter queue; `dry_run`: only report what would be done."""

    records: Annotated[list[RecordPosition], Field(min_length=1, max_length=_MOST_RETRIED)]
    dry_run: bool = False


class RetryResult(BaseModel):
    """What was done, or would be in a dry run: the records that are sent again, and why the others are not."""

    allowed: bool
    executed: bool
    message: str
    retried: Sequence[str]
    refused: Mapping[str, str]


@_read_router.get("")
def list_dead_letters(
    job: JobDep,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of records, over all partitions")] = 10,
    contains: Annotated[
        str, Query(max_length=200, description="Only records with this text in stage, position, reason or content")
    ] = "",
) -> DeadLetterList:
    """Return the newest records that a job could not process, the newest last; none before its first start."""
    retry_times, stages = replay_times(job.folder), _stage_names(job)
    with job.log() as log:
        try:
            newest = newest_failures(log, job.job.dead_letters, _SEARCHED)
        except UnknownTopicError:  # its first start creates it
            newest = []
    sought = contains.casefold()
    matching = [each for each in newest if not sought or sought in _searchable(each, stages)]
    return DeadLetterList(
        dead_letters=[_dead_letter(job, each, stages, retry_times) for each in matching[-limit:]],
        matching=len(matching),
    )


@_change_router.post("/retry")
def retry(job: JobDep, body: RetryRequest, user: GetUserDep) -> RetryResult:
    """Send dead letters again, as new records at the end of the partitions that they came from; each only once."""
    with job.log() as log:
        if body.dry_run:
            planned = plan_retries(log, job.job, job.folder, body.records)
        else:
            planned = retry_dead_letters(log, job.job, job.folder, body.records, time.time())
    retried = [each.failure.record for each in planned if not each.refusal]
    if not body.dry_run:
        _log.info("%s: %s has retried the dead letters %s", job.job.name, user.get_name(), ", ".join(retried) or "none")
    return RetryResult(
        allowed=bool(retried),
        executed=bool(retried) and not body.dry_run,
        message=_retry_message(planned),
        retried=retried,
        refused={each.failure.record: each.refusal for each in planned if each.refusal},
    )


def _retry_message(planned: Sequence[PlannedRetry]) -> str:
    """Describe a retry for a person."""
    allowed = [each.failure for each in planned if not each.refusal]
    sentences = []
    if len(allowed) == 1:
        (one,) = allowed
        sentences.append(
            f"The record at offset {one.offset} of partition {one.partition} is appended to that partition of "
            f"{one.topic} as a new record."
        )
    elif allowed:
        topics = " and ".join(sorted({each.topic for each in allowed}))
        sentences.append(f"{format_count(len(allowed), 'record')} are appended to {topics}, each to its partition.")
    if allowed:
        sentences.append("Effects of earlier attempts remain.")
    reasons = sorted({each.refusal for each in planned if each.refusal})
    if reasons:
        others = "It cannot be retried" if len(planned) == 1 else f"{len(planned) - len(allowed)} are not retried"
        sentences.append(f"{others}: {'; '.join(reasons)}.")
    return " ".join(sentences)


def _dead_letter(
    job: JobHandle, failure: Failure, stages: Mapping[int, str], retry_times: Mapping[str, float]
) -> DeadLetter:
    content, encoding = _readable(failure.content[:_MOST_CONTENT])
    retried_at = retry_times.get(failure.record)
    return DeadLetter(
        record=failure.record,
        stage=stages.get(failure.sender, "") if failure.sender is not None else "",
        topic=failure.topic,
        partition=failure.partition,
        offset=failure.offset,
        reason=failure.reason,
        failed_at=datetime.fromtimestamp(failure.failed_at, UTC),
        content=content,
        encoding=encoding,
        bytes=len(failure.content),
        retried_at=None if retried_at is None else datetime.fromtimestamp(retried_at, UTC),
        refusal=refusal_reason(job.job, failure, retry_times),
    )


def _readable(content: bytes) -> tuple[str, Literal["text", "hex"]]:
    """Return bytes as text, or as hexadecimal digits if they are not UTF-8; a character may be cut at the end."""
    for cut in range(4):
        try:
            return content[: len(content) - cut].decode(), "text"
        except UnicodeDecodeError as error:
            if error.start < len(content) - 3 or len(content) < _MOST_CONTENT:
                break
    return content.hex(" "), "hex"


def _searchable(failure: Failure, stages: Mapping[int, str]) -> str:
    stage = stages.get(failure.sender, "") if failure.sender is not None else ""
    position = f"{failure.topic} {failure.partition}:{failure.offset}"
    content, _ = _readable(failure.content)
    return "\n".join((stage, position, failure.reason, content)).casefold()


def _stage_names(job: JobHandle) -> dict[int, str]:
    """Return the stages that write dead letters, by their sender index."""
    return {stage.sender_index: stage.name for stage in job.job.stages() if stage.dead_letters}


router = APIRouter(tags=["streams"])
for part in (_read_router, _change_router):
    router.include_router(part)
