"""Tracked jobs over HTTP: records in flight, failed records and their retry, completeness of a range, and the ring."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Path, Query, status
from pydantic import StringConstraints

from springline.airflow.api import access, schemas
from springline.airflow.api.streams import JobDep, JobHandle
from springline.spark_jobs.streaming.jobs import TrackedJob
from springline.spark_jobs.streaming.tracking.completeness import NotTrackedError, completeness_of
from springline.spark_jobs.streaming.tracking.replay.failures import Failure, newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import (
    refusal_reason,
    replay_times,
    retry_dead_letter,
)
from springline.spark_jobs.streaming.tracking.ring import RingHistory
from springline.spark_jobs.streaming.tracking.ring_file import change_ring, read_ring_history

_log = logging.getLogger(__name__)
_read_router = APIRouter(prefix="/streams/{job}/tracking", dependencies=[Depends(access.require_job_read)])
_change_router = APIRouter(prefix="/streams/{job}/tracking", dependencies=[Depends(access.require_job_change)])

RecordPosition = Annotated[str, StringConstraints(pattern="^[0-9]{1,9}:[0-9]{1,19}$")]
AckerNumber = Annotated[int, Path(ge=0, description="Number of the acker, from 0")]


@_read_router.get("")
def tracking(job: JobDep) -> schemas.TrackingStatus:
    """Return how many records are in flight, completed, retried and failed, at the job's last report."""
    name = job.tracked.name
    job_status = job.read_status()
    if not job_status.tracking:
        raise NotTrackedError(f"{name}: it has not tracked any record yet; start it first")
    return schemas.TrackingStatus(**{**job_status.tracking, "state": job_status.state})


@_read_router.get("/failed")
def list_failed_records(
    job: JobDep,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of records, over all partitions")] = 10,
) -> schemas.FailedRecordList:
    """Return the newest records that failed for good or could not be used, the newest last."""
    tracked, retry_times = job.tracked, replay_times(job.folder)
    with job.log() as log:
        return schemas.FailedRecordList(
            failed=[
                _failed_record(tracked, each, retry_times) for each in newest_failures(log, tracked.dead_letters, limit)
            ]
        )


@_change_router.post("/failed/{record}/retry")
def retry_failed_record(
    job: JobDep,
    record: Annotated[RecordPosition, Path(description="Position in the dead-letter queue, as UNIT:OFFSET")],
    body: schemas.EmptyBody,
    user: GetUserDep,
) -> schemas.FailedRecord:
    """Send a failed record again, as a new one at the end of the job's topic; each can be sent only once."""
    tracked = job.tracked
    with job.log() as log:
        failure = retry_dead_letter(log, tracked, job.folder, record, time.time())
    _log.info("%s: %s has retried the dead letter %s", tracked.name, user.get_name(), record)
    return _failed_record(tracked, failure, replay_times(job.folder))


@_read_router.get("/completion")
def read_completion(
    job: JobDep,
    to: Annotated[
        Sequence[RecordPosition],
        Query(description="End offset as PARTITION:OFFSET, may be repeated; default: the current end of the topic"),
    ] = (),
) -> schemas.Completion:
    """Return whether all records before the given offsets are completed."""
    topic = job.tracked.topic
    target_offsets = {int(partition): int(offset) for partition, offset in (position.split(":") for position in to)}
    if not target_offsets:
        with job.log() as log:
            target_offsets = {unit: extent.high for unit, extent in log.offset_bounds(topic).items()}
    return schemas.Completion.of(completeness_of(job.folder, target_offsets))


@_read_router.get("/ackers")
def ackers(job: JobDep) -> schemas.RingStatus:
    """Return the ring: the possible ackers, and how many records each tracks."""
    return _ring_status(job, read_ring_history(job.folder, job.tracked.tracking))


@_change_router.put("/ackers/{acker}", status_code=status.HTTP_201_CREATED)
def add_acker(job: JobDep, acker: AckerNumber, user: GetUserDep) -> schemas.RingStatus:
    """Add an acker to the ring, whether the job runs or not."""
    new_ring = change_ring(job.folder, job.tracked.tracking, lambda epochs: epochs.with_acker(acker))
    _log.info("%s: %s has added acker %d to the ring; epoch %d", job.job.name, user.get_name(), acker, new_ring.epoch)
    return _ring_status(job, new_ring)


@_change_router.delete("/ackers/{acker}")
def remove_acker(job: JobDep, acker: AckerNumber, user: GetUserDep) -> schemas.RingStatus:
    """Remove an acker from the ring, whether the job runs or not; it hands its records over to the others."""
    new_ring = change_ring(job.folder, job.tracked.tracking, lambda epochs: epochs.without_acker(acker))
    _log.info(
        "%s: %s has removed acker %d from the ring; epoch %d", job.job.name, user.get_name(), acker, new_ring.epoch
    )
    return _ring_status(job, new_ring)


def _failed_record(job: TrackedJob, failure: Failure, retry_times: Mapping[str, float]) -> schemas.FailedRecord:
    return schemas.FailedRecord.of(
        failure, retry_times.get(failure.record), not refusal_reason(job, failure, retry_times)
    )


def _ring_status(job: JobHandle, epochs: RingHistory) -> schemas.RingStatus:
    return schemas.RingStatus.of(epochs, job.read_status().tracking.get("ackers", ()))


router = APIRouter(tags=["streams"])
for part in (_read_router, _change_router):
    router.include_router(part)
