"""Tracked jobs over HTTP: records in flight, completeness of a range, and the ring of ackers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Path, Query, status
from pydantic import StringConstraints

from springline.airflow.api import access, schemas
from springline.airflow.api.streams import JobDep, JobHandle
from springline.spark_jobs.streaming.tracking.completeness import NotTrackedError, completeness_of
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


def _ring_status(job: JobHandle, epochs: RingHistory) -> schemas.RingStatus:
    return schemas.RingStatus.of(epochs, job.read_status().tracking.get("ackers", ()))


router = APIRouter(tags=["streams"])
for part in (_read_router, _change_router):
    router.include_router(part)
