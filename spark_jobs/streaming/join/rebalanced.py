"""Jobs whose tuples are placed by a routing table, as commands and routes ask for them: what every join is."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

from springline.spark_jobs.streaming.errors import UnknownJobError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.join.routing.controller import Control


@runtime_checkable
class Rebalanced(Job, Protocol):
    """A job that places stored tuples on some of `room` units, and moves them as `control` says."""

    @property
    def control(self) -> Control: ...

    @property
    def room(self) -> int: ...


def is_rebalanced(job: Job) -> TypeGuard[Rebalanced]:
    """Whether loads, heavy keys and the number of units can be asked of a job."""
    return isinstance(job, Rebalanced)


def as_rebalanced(job: Job) -> Rebalanced:
    """A job that joins two streams; raises `UnknownJobError` where it joins nothing."""
    if not is_rebalanced(job):
        raise UnknownJobError(f"{job.name}: it joins nothing")
    return job
