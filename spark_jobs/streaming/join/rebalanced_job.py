"""Jobs whose tuples are placed by a routing table, as used by commands and routes: every join is one."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

from springline.spark_jobs.streaming.errors import UnknownJobError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig


@runtime_checkable
class RebalancedJob(Job, Protocol):
    """A job that places stored tuples on up to `max_units` units and migrates them as `rebalance_config` says."""

    @property
    def rebalance_config(self) -> RebalanceConfig: ...

    @property
    def max_units(self) -> int: ...

    @property
    def condition(self) -> Condition: ...


def is_rebalanced(job: Job) -> TypeGuard[RebalancedJob]:
    """Whether a job has loads, heavy keys and a number of units that can be queried."""
    return isinstance(job, RebalancedJob)


def as_rebalanced(job: Job) -> RebalancedJob:
    """Return the job as a join of two streams; raises `UnknownJobError` if it is not a join."""
    if not is_rebalanced(job):
        raise UnknownJobError(f"{job.name}: it is not a join")
    return job
