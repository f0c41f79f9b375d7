"""Jobs that have queries, as commands, routes, DAGs and the sink ask for them: what every job of windows is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeGuard, runtime_checkable

from springline.spark_jobs.streaming.errors import UnknownJobError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.jobs import job_of, read_jobs
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.windows.registry import Registry


@runtime_checkable
class Queryable(Job, Protocol):
    """A job of windowed statistics.

    `mapper` and `reducer` are its stages as they are where nothing is tracked, `queries` those that it is declared
    with. `admitted` is how many messages of a unit a round has at most, `keep` the form in which results are kept in
    the catalog, too; empty: they are not.
    """

    @property
    def queries(self) -> Mapping[str, str]: ...

    @property
    def admitted(self) -> int: ...

    @property
    def keep(self) -> str: ...

    def registry(self) -> Registry:
        """The queries that the job begins with; raises `InvalidQueryError`."""

    def mapper(self, units: int) -> StageSpec:
        """The stage that adds up rows, on so many units of the topic."""

    def reducer(self) -> StageSpec:
        """The stage that adds up what mappers send."""


def is_queryable(job: Job) -> TypeGuard[Queryable]:
    """Whether a job has queries."""
    return isinstance(job, Queryable)


def as_queryable(job: Job) -> Queryable:
    """A job that has queries; raises `UnknownJobError` where it has none."""
    if not is_queryable(job):
        raise UnknownJobError(f"{job.name}: it computes no windowed statistics, so it has no queries")
    return job


def queryable_job_of(file: Path, name: str) -> Queryable:
    """A declared job that has queries; raises `UnknownJobError`, also where it has none."""
    return as_queryable(job_of(file, name))


def queryable_jobs(file: Path) -> dict[str, Queryable]:
    """The declared jobs that have queries, by name."""
    return {name: job for name, job in read_jobs(file).items() if is_queryable(job)}
