"""Stream jobs over HTTP: how they are, their queries, ad hoc answers, their newest results, and to stop them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Query, Request, Response, status
from fastapi.responses import JSONResponse

from springline.airflow.api import access, schemas
from springline.airflow.dags.ids import dag_of
from springline.spark_jobs.streaming.application.status import Seen, look
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import (
    TrackedJob,
    as_tracked,
    is_tracked,
    read_jobs,
    unknown_job,
)
from springline.spark_jobs.streaming.join.rebalance import explanation_of
from springline.spark_jobs.streaming.join.rebalanced import as_rebalanced, is_rebalanced
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.tail import newest
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.adhoc_query import ask
from springline.spark_jobs.streaming.windows.queryable import Queryable, as_queryable, is_queryable
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.registry_file import change_registry, read_registry

_KAFKA_SECONDS = 5.0  # without an answer of Kafka: who asks here does not wait as long as a job does

_log = logging.getLogger(__name__)
_all = APIRouter(prefix="/streams")
_reading = APIRouter(prefix="/streams/{job}", dependencies=[Depends(access.reads)])
_changing = APIRouter(prefix="/streams/{job}", dependencies=[Depends(access.changes)])


@dataclass(frozen=True)
class Found:
    """A declared job, its folder, and the settings that tell where everything is."""

    job: Job
    folder: JobFolder
    settings: StreamSettings

    @property
    def queryable(self) -> Queryable:
        """The job, where it has queries; raises `UnknownJobError`."""
        return as_queryable(self.job)

    @property
    def tracked(self) -> TrackedJob:
        """The job, where its records are tracked; raises `UnknownJobError`."""
        return as_tracked(self.job)

    @property
    def explanation(self) -> Mapping[str, Any]:
        """What the last look at a join told.

        Raises `UnknownJobError` where the job is none, and `NeverBalancedError`.
        """
        as_rebalanced(self.job)
        return explanation_of(self.folder)

    @property
    def answers(self) -> Sequence[schemas.Answers]:
        """What else can be asked of the job than of any."""
        capabilities: Mapping[schemas.Answers, bool] = {
            "queries": is_queryable(self.job),
            "tracking": is_tracked(self.job),
            "join": is_rebalanced(self.job),
        }
        return [name for name, given in capabilities.items() if given]

    @property
    def registry(self) -> Registry:
        """The job's queries as they are now."""
        return read_registry(self.folder) or self.queryable.registry()

    def look(self) -> Seen:
        """How the job is."""
        return look(self.job.name, self.folder, time.time())

    def told(self, user: BaseUser) -> schemas.Stream:
        """The same for a user."""
        name = self.job.name
        may_change = access.may(user, "PUT", name)
        return schemas.Stream(**vars(self.look()), dag_id=dag_of(name), answers=self.answers, may_change=may_change)

    def log(self) -> AbstractContextManager[Kafka]:
        """Kafka, for as long as a request."""
        return closing(Kafka(self.settings.cluster, patience=_KAFKA_SECONDS))


def found(job: access.JobName, user: GetUserDep) -> Found:
    """The job that a path names; raises `UnknownJobError`, which names others only to those who may read them."""
    settings = StreamSettings()
    jobs = read_jobs(settings.declarations)
    if job not in jobs:
        raise unknown_job(settings.declarations, job, access.readable(user, jobs))
    return Found(jobs[job], settings.folder(job), settings)


FoundDep = Annotated[Found, Depends(found)]


@_all.get("")
def streams(user: GetUserDep) -> schemas.Streams:
    """How the jobs are that you may read."""
    names = access.readable(user, read_jobs(StreamSettings().declarations))
    return schemas.Streams(streams=[found(name, user).told(user) for name in names])


@_reading.get("")
def stream(job: FoundDep, user: GetUserDep) -> schemas.Stream:
    """How a job is."""
    return job.told(user)


@_reading.get("/queries")
def queries(job: FoundDep) -> schemas.Queries:
    """The queries of a job."""
    registry = job.registry
    return schemas.Queries(version=registry.version, queries=[schemas.Query.of(query) for query in registry.registered])


@_reading.get("/queries/{name}")
def query(job: FoundDep, name: str) -> schemas.OneQuery:
    """A query of a job."""
    return _one(job.registry, name)


@_changing.put("/queries/{name}", responses={201: {"model": schemas.OneQuery, "description": "Registered"}})
def put_query(job: FoundDep, name: str, body: schemas.Sql, user: GetUserDep, response: Response) -> schemas.OneQuery:
    """Register a query, or give one another text; the job goes on."""
    before = job.registry

    def put(known: Registry | None) -> Registry:
        nonlocal before
        before = known or job.queryable.registry()
        return before.put(name, body.sql)

    after = change_registry(job.folder, put)
    new = all(query.name != name for query in before.registered)
    if new:
        response.status_code = status.HTTP_201_CREATED
    if after.version != before.version:
        what = "registered" if new else "changed"
        _log.info("%s: %s has %s the query %s; version %d", job.job.name, user.get_name(), what, name, after.version)
    return _one(after, name)


@_changing.delete("/queries/{name}")
def cancel_query(job: FoundDep, name: str, user: GetUserDep) -> schemas.Version:
    """Cancel a query."""
    after = change_registry(job.folder, lambda known: (known or job.queryable.registry()).cancel(name))
    _log.info("%s: %s has cancelled the query %s; version %d", job.job.name, user.get_name(), name, after.version)
    return schemas.Version(version=after.version)


@_reading.get("/ask")
def askable(job: FoundDep, request: Request) -> schemas.Askables:
    """What an ad hoc query can be asked: the slices that registered queries keep."""
    planner = request.app.state.planners.of(job.queryable.name, job.registry)
    return schemas.Askables(slices=[schemas.Askable(**asdict(each)) for each in planner.askable()])


@_reading.post("/ask", response_model=schemas.Answered)
def ask_once(job: FoundDep, body: schemas.Sql, request: Request) -> JSONResponse:
    """Answer an ad hoc query from the slices that the job holds at this moment."""
    answer = ask(job.queryable, job.registry, job.settings.state_folder, body.sql, request.app.state.planners)
    return JSONResponse(schemas.answered(answer))


@_reading.get("/results")
def results(
    job: FoundDep,
    query: Annotated[str, Query(description="Only those of this query")] = "",
    last: Annotated[int, Query(ge=1, le=10_000, description="So many rows, over all units")] = 10,
) -> schemas.Results:
    """The newest results of a job, the newest last."""
    with job.log() as log:
        return schemas.Results(rows=newest(log, job.job.results, last, query))


@_changing.post("/stop", status_code=status.HTTP_202_ACCEPTED)
def stop(job: FoundDep, user: GetUserDep) -> schemas.Stream:
    """Let a job's application end when the rounds that are planned are through; nothing happens if it does not run."""
    if job.folder.runs():
        job.folder.ask_to_stop()
        _log.info("%s: %s has asked it to stop", job.job.name, user.get_name())
    return job.told(user)


def _one(registry: Registry, name: str) -> schemas.OneQuery:
    """A query of a registry; raises `UnknownQueryError`."""
    registry.text(name)
    (chosen,) = (query for query in registry.registered if query.name == name)
    return schemas.OneQuery(version=registry.version, query=schemas.Query.of(chosen))


router = APIRouter(tags=["streams"])
for part in (_all, _reading, _changing):
    router.include_router(part)
