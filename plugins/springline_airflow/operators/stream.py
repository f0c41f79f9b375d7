"""A stream job as an Airflow task: started or found running, monitored by a trigger, restarted within limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import asdict
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from springline.airflow.metrics import task_meter, trigger_meter
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.spark_jobs.streaming.application.metrics import RESTARTS
from springline.spark_jobs.streaming.application.monitor import Monitor
from springline.spark_jobs.streaming.application.status import read_status
from springline.spark_jobs.streaming.application.supervision import (
    Limits,
    SupervisorAction,
    SupervisorDecision,
    decide_action,
    kill_application,
    launch,
    read_starts,
    record_start,
    renew_lease,
)
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import as_queryable
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from springline.spark_jobs.streaming.windows.registry_file import change_registry

LEASE_SECONDS = 900.0  # an application ends if no trigger has renewed its lease for this long

Launch = Callable[[str, JobFolder], None]


def launch_supervised(job: str, folder: JobFolder) -> None:
    """Start the application with a lease: it ends if nothing supervises it any more."""
    launch(job, folder, lease=LEASE_SECONDS)


class HeartbeatTrigger(BaseTrigger):
    """Fires when the supervisor must act on a job; renews the job's lease meanwhile.

    When a user ends the task (marks or clears it), the stream is stopped at the end of a round; a restart of the
    triggerer does not affect it.
    """

    def __init__(self, job: str, run: str, limits: dict[str, Any], poll: float = 2.0, settle: float = 10.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = job
        self.run_name = run
        self.limits = limits
        self.poll = poll
        self.settle = settle

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which Airflow recreates this trigger."""
        kwargs = {
            "job": self.job,
            "run": self.run_name,
            "limits": self.limits,
            "poll": self.poll,
            "settle": self.settle,
        }
        return f"{HeartbeatTrigger.__module__}.{HeartbeatTrigger.__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check the job until an action is required."""
        await asyncio.sleep(self.settle)  # see QueueTrigger
        folder, meter = _folder(self.job), trigger_meter()
        monitor = Monitor(MonitoringSettings(), meter)
        try:
            while (decision := await asyncio.to_thread(self._decide, folder, monitor)).action is SupervisorAction.WAIT:
                await asyncio.sleep(self.poll)
            yield TriggerEvent({"action": str(decision.action), "reason": decision.reason})  # type: ignore[no-untyped-call]
        finally:
            await asyncio.to_thread(meter.close)

    async def on_kill(self) -> None:
        """Stop the stream: a user has ended its task."""
        await asyncio.to_thread(_folder(self.job).request_stop)

    def _decide(self, folder: JobFolder, monitor: Monitor) -> SupervisorDecision:
        renew_lease(folder)
        now = time.time()
        job_status = read_status(self.job, folder, now)
        monitor.evaluate(job_status, now)
        return decide_action(job_status, read_starts(folder, self.run_name), now, Limits(**self.limits))


class StreamOperator(BaseOperator):
    """Runs a job of streams.toml while its DAG run lasts, with one application even if Airflow retries the task.

    `queries` are registered, or changed, when the task starts. It fails if the job was restarted more often than
    `limits` allow, and succeeds when the job is stopped.
    """

    template_fields = ("queries",)

    def __init__(
        self,
        *,
        job: str,
        queries: dict[str, str] | str | None = None,
        limits: Limits = Limits(),  # noqa: B008  (a frozen value)
        start_application: Launch = launch_supervised,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job = job
        self.queries = queries
        self.limits = limits
        self._launch = start_application

    def execute(self, context: Any) -> dict[str, Any]:
        """Start the application, unless it is running."""
        run = str(context["run_id"])
        declared_job, folder = _job(self.job)
        queries = self.queries if isinstance(self.queries, dict) else {}
        if queries:
            queryable_job = as_queryable(declared_job)
            new_registry = change_registry(
                folder, lambda stored_registry: _with_queries(stored_registry or queryable_job.registry(), queries)
            )
            self.log.info("Queries of %s: version %s.", self.job, new_registry.version)
        return self._supervise(folder, run)

    def resume(self, context: Any, event: dict[str, Any], run: str) -> dict[str, Any]:
        """Continue after the trigger has fired."""
        self.log.info("%s: %s, because %s.", self.job, event["action"], event["reason"])
        return self._supervise(_folder(self.job), run)

    def on_kill(self) -> None:
        """Stop the stream at the end of a round."""
        _folder(self.job).request_stop()

    def _supervise(self, folder: JobFolder, run: str) -> dict[str, Any]:
        now = time.time()
        job_status = read_status(self.job, folder, now)
        decision = decide_action(job_status, read_starts(folder, run), now, self.limits)
        if decision.action is SupervisorAction.GIVE_UP:
            with closing(task_meter()) as meter:
                Monitor(MonitoringSettings(), meter).evaluate(job_status, now, restart_limit_reached=True)
            raise AirflowException(f"{self.job} is not restarted any more: {decision.reason}; log: {folder.log_file}")
        if decision.action is SupervisorAction.FINISHED:
            return {"job": self.job, "stages": dict(job_status.stages)}
        if decision.action is SupervisorAction.RESTART:
            kill_application(job_status, folder)
        if decision.action in (SupervisorAction.START, SupervisorAction.RESTART):
            if read_starts(folder, run):
                with closing(task_meter()) as meter:
                    meter.report(RESTARTS, job=self.job)
            record_start(folder, run, now)
            self._launch(self.job, folder)
        elif not read_starts(folder, run):
            record_start(folder, run, now)  # it was already running
        self.log.info("%s: %s (%s).", self.job, decision.action, decision.reason)
        self.defer(
            trigger=HeartbeatTrigger(self.job, run, asdict(self.limits)),
            method_name=self.resume.__name__,
            kwargs={"run": run},
        )
        raise AssertionError("deferring does not return")


def _job(name: str) -> tuple[Job, JobFolder]:
    return read_job(StreamSettings().declarations, name), _folder(name)


def _folder(name: str) -> JobFolder:
    return JobFolder(StreamSettings().jobs_folder / name)


def _with_queries(registry: QueryRegistry, queries: dict[str, str]) -> QueryRegistry:
    """Return the registry with these queries added, or changed if their names exist."""
    for name, sql in queries.items():
        registry = registry.put(name, sql)
    return registry
