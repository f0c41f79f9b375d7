"""Stream jobs over HTTP: their status, their queries, ad hoc queries, their newest results, and a request to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Query, Request, Response, status
from fastapi.responses import JSONResponse

from springline.airflow.api import access, schemas
from springline.airflow.dags.ids import dag_of
from springline.spark_jobs.streaming.application.health import Health
from springline.spark_jobs.streaming.application.lag_history import FILE as HISTORY_FILE
from springline.spark_jobs.streaming.application.lag_history import INTERVAL_SECONDS, SLOTS, LagPoint, read_history
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.declarations import unknown_job
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import TrackedJob, as_tracked, is_tracked, read_jobs
from springline.spark_jobs.streaming.join.rebalance import require_explanation
from springline.spark_jobs.streaming.join.rebalanced_job import as_rebalanced, is_rebalanced
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.newest_results import newest_rows
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.adhoc_query import ask
from springline.spark_jobs.streaming.windows.queryable import Queryable, as_queryable, is_queryable
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.registry_file import change_registry, read_registry

_KAFKA_TIMEOUT_SECONDS = 5.0  # timeout of Kafka requests; shorter than a job's, because a user waits

_log = logging.getLogger(__name__)
_list_router = APIRouter(prefix="/streams")
_read_router = APIRouter(prefix="/streams/{job}", dependencies=[Depends(access.require_job_read)])
_change_router = APIRouter(prefix="/streams/{job}", dependencies=[Depends(access.require_job_change)])


@dataclass(frozen=True)
class JobHandle:
    """A declared job, its folder, and the settings with all locations."""

    job: Job
    folder: JobFolder
    settings: StreamSettings

    @property
    def queryable(self) -> Queryable:
        """The job, if it has queries; raises `UnknownJobError`."""
        return as_queryable(self.job)

    @property
    def tracked(self) -> TrackedJob:
        """The job, if its records are tracked; raises `UnknownJobError`."""
        return as_tracked(self.job)

    @property
    def explanation(self) -> Mapping[str, Any]:
        """The report of a join's last inspection.

        Raises `UnknownJobError` if the job is not a join, and `NeverBalancedError`.
        """
        as_rebalanced(self.job)
        return require_explanation(self.folder)

    @property
    def capabilities(self) -> Sequence[schemas.Capability]:
        """The optional features of the job."""
        support: Mapping[schemas.Capability, bool] = {
            "queries": is_queryable(self.job),
            "tracking": is_tracked(self.job),
            "join": is_rebalanced(self.job),
        }
        return [name for name, is_supported in support.items() if is_supported]

    @property
    def registry(self) -> QueryRegistry:
        """The job's queries as they are now."""
        return read_registry(self.folder) or self.queryable.registry()

    def read_status(self) -> JobStatus:
        """Return the status of the job."""
        return read_status(self.job.name, self.folder, time.time())

    def history(self, most: int) -> list[LagPoint]:
        """Return the newest `most` points of the job's lag and throughput."""
        return read_history(self.folder.path / HISTORY_FILE, time.time(), most) if most else []

    def detail_for(self, user: BaseUser, points: int = 0) -> schemas.StreamDetail:
        """Return the status of the job with what a user may do, and so many points of its history."""
        name = self.job.name
        may_change = access.may_access_job(user, "PUT", name)
        return schemas.StreamDetail(
            **vars(self.read_status()),
            dag_id=dag_of(name),
            capabilities=self.capabilities,
            may_change=may_change,
            history=self.history(points),
        )

    def log(self) -> AbstractContextManager[Kafka]:
        """Return a Kafka client that is closed after the request."""
        return closing(Kafka(self.settings.cluster, timeout=_KAFKA_TIMEOUT_SECONDS))


def find_job(job: access.JobName, user: GetUserDep) -> JobHandle:
    """Return the job that a path names; raises `UnknownJobError`, which lists only jobs that the user may read."""
    settings = StreamSettings()
    jobs = read_jobs(settings.declarations)
    if job not in jobs:
        raise unknown_job(settings.declarations, job, access.readable_jobs(user, jobs))
    return JobHandle(jobs[job], settings.folder(job), settings)


def readable_handles(user: BaseUser) -> list[JobHandle]:
    """Return the declared jobs that a user may read."""
    settings = StreamSettings()
    jobs = read_jobs(settings.declarations)
    return [JobHandle(jobs[name], settings.folder(name), settings) for name in access.readable_jobs(user, jobs)]


JobDep = Annotated[JobHandle, Depends(find_job)]


@_list_router.get("")
def streams(
    user: GetUserDep,
    history: Annotated[int, Query(ge=0, le=SLOTS, description="Points of each job's lag history to include")] = 0,
) -> schemas.StreamList:
    """Return the status of the jobs that you may read, the worst health first."""
    details = [handle.detail_for(user, history) for handle in readable_handles(user)]
    order = list(Health)
    return schemas.StreamList(streams=sorted(details, key=lambda each: (order.index(each.health), each.job)))


@_read_router.get("")
def stream(job: JobDep, user: GetUserDep) -> schemas.StreamDetail:
    """Return the status of a job."""
    return job.detail_for(user)


@_read_router.get("/history")
def lag_history(job: JobDep) -> schemas.StreamHistory:
    """Return the lag and throughput of a job in the last hour; no points before its first run."""
    return schemas.StreamHistory(interval=INTERVAL_SECONDS, points=job.history(SLOTS))


@_read_router.get("/queries")
def queries(job: JobDep) -> schemas.QueryList:
    """Return the registered queries of a job."""
    registry = job.registry
    return schemas.QueryList(
        version=registry.version, queries=[schemas.QuerySummary.of(query) for query in registry.registered]
    )


@_read_router.get("/queries/{name}")
def query(job: JobDep, name: str) -> schemas.QueryDetail:
    """Return a registered query of a job."""
    return _query_detail(job.registry, name)


@_change_router.put("/queries/{name}", responses={201: {"model": schemas.QueryDetail, "description": "Registered"}})
def put_query(job: JobDep, name: str, body: schemas.Sql, user: GetUserDep, response: Response) -> schemas.QueryDetail:
    """Register a query, or change the text of a registered one; the job keeps running."""
    before = job.registry

    def put(stored_registry: QueryRegistry | None) -> QueryRegistry:
        nonlocal before
        before = stored_registry or job.queryable.registry()
        return before.put(name, body.sql)

    after = change_registry(job.folder, put)
    new = all(query.name != name for query in before.registered)
    if new:
        response.status_code = status.HTTP_201_CREATED
    if after.version != before.version:
        what = "registered" if new else "changed"
        _log.info("%s: %s has %s the query %s; version %d", job.job.name, user.get_name(), what, name, after.version)
    return _query_detail(after, name)


@_change_router.delete("/queries/{name}")
def cancel_query(job: JobDep, name: str, user: GetUserDep) -> schemas.RegistryVersion:
    """Cancel a query."""
    after = change_registry(
        job.folder, lambda stored_registry: (stored_registry or job.queryable.registry()).cancel(name)
    )
    _log.info("%s: %s has cancelled the query %s; version %d", job.job.name, user.get_name(), name, after.version)
    return schemas.RegistryVersion(version=after.version)


@_read_router.get("/ask")
def list_adhoc_slices(job: JobDep, request: Request) -> schemas.AdhocSliceList:
    """Return the slices of registered queries, from which ad hoc queries can be answered."""
    planner = request.app.state.planners.planner_of(job.queryable.name, job.registry)
    return schemas.AdhocSliceList(slices=[schemas.AdhocSlices(**asdict(each)) for each in planner.askable()])


@_read_router.post("/ask", response_model=schemas.AdhocAnswer)
def run_adhoc_query(job: JobDep, body: schemas.Sql, request: Request) -> JSONResponse:
    """Answer an ad hoc query from the slices that the job keeps at this moment."""
    state = request.app.state
    answer = ask(
        job.queryable, job.registry, body.sql, job.folder, job.log, lambda: nullcontext(state.platforms.now()),
        state.planners,
    )  # fmt: skip
    return JSONResponse(schemas.adhoc_answer_json(answer))


@_read_router.get("/results")
def results(
    job: JobDep,
    query: Annotated[str, Query(description="Only results of this query")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of rows, over all partitions")] = 10,
) -> schemas.Results:
    """Return the newest results of a job, the newest last."""
    with job.log() as log:
        return schemas.Results(rows=newest_rows(log, job.job.results, limit, query))


@_change_router.post("/stop", status_code=status.HTTP_202_ACCEPTED)
def stop(job: JobDep, user: GetUserDep) -> schemas.StreamDetail:
    """Stop a job's application after its planned rounds are completed; no effect if it is not running."""
    if job.folder.is_running():
        job.folder.request_stop()
        _log.info("%s: %s has requested a stop", job.job.name, user.get_name())
    return job.detail_for(user)


def _query_detail(registry: QueryRegistry, name: str) -> schemas.QueryDetail:
    """Return a query of a registry; raises `UnknownQueryError`."""
    registry.text(name)
    (matching_query,) = (query for query in registry.registered if query.name == name)
    return schemas.QueryDetail(version=registry.version, query=schemas.QuerySummary.of(matching_query))


router = APIRouter(tags=["streams"])
for part in (_list_router, _read_router, _change_router):
    router.include_router(part)
