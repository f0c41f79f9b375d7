"""Tracked jobs over HTTP: what is in flight, what failed and is sent again, whether a range is through, the ring."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Path, Query, status
from pydantic import StringConstraints

from springline.airflow.api import access, schemas
from springline.airflow.api.streams import Found, FoundDep
from springline.spark_jobs.streaming.jobs import TrackedJob
from springline.spark_jobs.streaming.tracking.completeness import NotTrackedError, completeness_of
from springline.spark_jobs.streaming.tracking.replay.failures import Failure, newest_failures
from springline.spark_jobs.streaming.tracking.replay.manual_replay import resent, send_again, trouble_with
from springline.spark_jobs.streaming.tracking.ring import Epochs
from springline.spark_jobs.streaming.tracking.ring_file import change_ring, ring_of

_log = logging.getLogger(__name__)
_reading = APIRouter(prefix="/streams/{job}/tracking", dependencies=[Depends(access.reads)])
_changing = APIRouter(prefix="/streams/{job}/tracking", dependencies=[Depends(access.changes)])

Place = Annotated[str, StringConstraints(pattern="^[0-9]{1,9}:[0-9]{1,19}$")]
AckerNumber = Annotated[int, Path(ge=0, description="The acker's number, from 0")]


@_reading.get("")
def tracking(job: FoundDep) -> schemas.Tracking:
    """What is in flight, completed, sent again and given up, as the job last told."""
    name = job.tracked.name
    seen = job.look()
    if not seen.tracking:
        raise NotTrackedError(f"{name}: it has tracked nothing yet; start it first")
    return schemas.Tracking(**{**seen.tracking, "state": seen.state})


@_reading.get("/failed")
def failed(
    job: FoundDep, last: Annotated[int, Query(ge=1, le=10_000, description="So many, over all units")] = 10
) -> schemas.Failures:
    """The newest records that were given up or could not be used, the newest last."""
    tracked, sent = job.tracked, resent(job.folder)
    with job.log() as log:
        return schemas.Failures(
            failed=[_failed(tracked, each, sent) for each in newest_failures(log, tracked.dead, last)]
        )


@_changing.post("/failed/{letter}/again")
def send_failed_again(
    job: FoundDep,
    letter: Annotated[Place, Path(description="Its place among the dead letters: UNIT:OFFSET")],
    body: schemas.Wanted,
    user: GetUserDep,
) -> schemas.Failed:
    """Send a record that failed again, as a new one at the end of the job's topic; each is sent once."""
    tracked = job.tracked
    with job.log() as log:
        failure = send_again(log, tracked, job.folder, letter, time.time())
    _log.info("%s: %s has had the letter %s sent again", tracked.name, user.get_name(), letter)
    return _failed(tracked, failure, resent(job.folder))


@_reading.get("/through")
def through(
    job: FoundDep,
    to: Annotated[
        Sequence[Place],
        Query(description="PARTITION:OFFSET, may be repeated; none: all that is in the topic now"),
    ] = (),
) -> schemas.Through:
    """Whether all records before some offsets are through."""
    topic = job.tracked.topic
    wanted = {int(partition): int(offset) for partition, offset in (place.split(":") for place in to)}
    if not wanted:
        with job.log() as log:
            wanted = {unit: extent.high for unit, extent in log.extents(topic).items()}
    return schemas.Through.of(completeness_of(job.folder, wanted))


@_reading.get("/ackers")
def ackers(job: FoundDep) -> schemas.Ring:
    """The ring: which ackers hold records, and how many."""
    return _ring(job, ring_of(job.folder, job.tracked.tracked))


@_changing.put("/ackers/{acker}", status_code=status.HTTP_201_CREATED)
def add_acker(job: FoundDep, acker: AckerNumber, user: GetUserDep) -> schemas.Ring:
    """Add an acker to the ring, while the job runs or not."""
    changed = change_ring(job.folder, job.tracked.tracked, lambda epochs: epochs.with_acker(acker))
    _log.info("%s: %s has added acker %d to the ring; epoch %d", job.job.name, user.get_name(), acker, changed.number)
    return _ring(job, changed)


@_changing.delete("/ackers/{acker}")
def remove_acker(job: FoundDep, acker: AckerNumber, user: GetUserDep) -> schemas.Ring:
    """Take an acker out of the ring, while the job runs or not; it hands over what it holds."""
    changed = change_ring(job.folder, job.tracked.tracked, lambda epochs: epochs.without_acker(acker))
    _log.info(
        "%s: %s has removed acker %d from the ring; epoch %d", job.job.name, user.get_name(), acker, changed.number
    )
    return _ring(job, changed)


def _failed(job: TrackedJob, failure: Failure, sent: Mapping[str, float]) -> schemas.Failed:
    return schemas.Failed.of(failure, sent.get(failure.letter), not trouble_with(job, failure, sent))


def _ring(job: Found, epochs: Epochs) -> schemas.Ring:
    return schemas.Ring.of(epochs, job.look().tracking.get("ackers", ()))


router = APIRouter(tags=["streams"])
for part in (_reading, _changing):
    router.include_router(part)
