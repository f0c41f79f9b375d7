"""Interface of the jobs that have queries, for commands, routes, DAGs and the sink; every windows job implements it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeGuard, runtime_checkable

from springline.spark_jobs.streaming.errors import UnknownJobError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.jobs import read_job, read_jobs
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.windows.registry import QueryRegistry


@runtime_checkable
class Queryable(Job, Protocol):
    """A job of windowed statistics.

    `mapper` and `reducer` are its stages without tracking, `queries` the declared queries. `max_messages_per_round`
    limits the messages per unit and round. `sink` is the format in which results are also written to the catalog;
    empty: they are not.
    """

    @property
    def queries(self) -> Mapping[str, str]: ...

    @property
    def max_messages_per_round(self) -> int: ...

    @property
    def sink(self) -> str: ...

    def registry(self) -> QueryRegistry:
        """Return a registry of the declared queries; raises `InvalidQueryError`."""

    def mapper(self) -> StageSpec:
        """Return the stage that computes partial aggregates."""

    def reducer(self) -> StageSpec:
        """Return the stage that merges the mappers' partial aggregates."""


def is_queryable(job: Job) -> TypeGuard[Queryable]:
    """Return whether a job has queries."""
    return isinstance(job, Queryable)


def as_queryable(job: Job) -> Queryable:
    """Return the job as one that has queries; raises `UnknownJobError` if it has none."""
    if not is_queryable(job):
        raise UnknownJobError(f"{job.name}: it is not a windows job, so it has no queries")
    return job


def queryable_job_of(file: Path, name: str) -> Queryable:
    """Read a declared job that has queries; raises `UnknownJobError`, also if it has no queries."""
    return as_queryable(read_job(file, name))


def queryable_jobs(file: Path) -> dict[str, Queryable]:
    """Read the declared jobs that have queries, by name."""
    return {name: job for name, job in read_jobs(file).items() if is_queryable(job)}
