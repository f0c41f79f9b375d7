"""A stream job as an Airflow task: started or found running, watched by a trigger, restarted within limits."""

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
from springline.spark_jobs.streaming.application.status import look
from springline.spark_jobs.streaming.application.supervision import (
    Limits,
    Verdict,
    decide,
    end,
    launch,
    note_start,
    renew,
    starts_of,
)
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import job_of
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.windows.queryable import as_queryable
from springline.spark_jobs.streaming.windows.registry import Registry
from springline.spark_jobs.streaming.windows.registry_file import change_registry

LEASE_SECONDS = 900.0  # an application ends by itself when no trigger has looked for so long

Launch = Callable[[str, JobFolder], None]


def launch_supervised(job: str, folder: JobFolder) -> None:
    """Start the application, which ends by itself when nobody watches it any more."""
    launch(job, folder, lease=LEASE_SECONDS)


class HeartbeatTrigger(BaseTrigger):
    """Fires when something has to be done about a job; renews its lease meanwhile.

    When a user ends the task (marks it, or clears it), the stream is stopped at a round's boundary; a restart of the
    triggerer does not touch it.
    """

    def __init__(self, job: str, run: str, limits: dict[str, Any], poll: float = 2.0, settle: float = 10.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = job
        self.run_name = run
        self.limits = limits
        self.poll = poll
        self.settle = settle

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How Airflow makes this trigger again."""
        kwargs = {
            "job": self.job,
            "run": self.run_name,
            "limits": self.limits,
            "poll": self.poll,
            "settle": self.settle,
        }
        return f"{HeartbeatTrigger.__module__}.{HeartbeatTrigger.__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to do."""
        await asyncio.sleep(self.settle)  # see QueueTrigger
        folder, meter = _folder(self.job), trigger_meter()
        monitor = Monitor(MonitoringSettings(), meter)
        try:
            while (decision := await asyncio.to_thread(self._look, folder, monitor)).verdict is Verdict.WAIT:
                await asyncio.sleep(self.poll)
            yield TriggerEvent({"verdict": str(decision.verdict), "why": decision.why})  # type: ignore[no-untyped-call]
        finally:
            await asyncio.to_thread(meter.close)

    async def on_kill(self) -> None:
        """Stop the stream: a user has ended its task."""
        await asyncio.to_thread(_folder(self.job).ask_to_stop)

    def _look(self, folder: JobFolder, monitor: Monitor) -> Any:
        renew(folder)
        now = time.time()
        seen = look(self.job, folder, now)
        monitor.note(seen, now)
        return decide(seen, starts_of(folder, self.run_name), now, Limits(**self.limits))


class StreamOperator(BaseOperator):
    """Runs a job of streams.toml as long as its DAG run lives, with one application whatever Airflow retries.

    `queries` are registered, or changed, when the task starts. It fails when the job was restarted more often than
    `limits` allow, and succeeds when the job was stopped.
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
        """Start the application, unless it runs."""
        run = str(context["run_id"])
        declared, folder = _job(self.job)
        queries = self.queries if isinstance(self.queries, dict) else {}
        if queries:
            asked = as_queryable(declared)
            changed = change_registry(folder, lambda known: _with(known or asked.registry(), queries))
            self.log.info("Queries of %s: version %s.", self.job, changed.version)
        return self._go_on(folder, run)

    def resume(self, context: Any, event: dict[str, Any], run: str) -> dict[str, Any]:
        """Go on once the trigger has fired."""
        self.log.info("%s: %s, because %s.", self.job, event["verdict"], event["why"])
        return self._go_on(_folder(self.job), run)

    def on_kill(self) -> None:
        """Stop the stream at a round's boundary."""
        _folder(self.job).ask_to_stop()

    def _go_on(self, folder: JobFolder, run: str) -> dict[str, Any]:
        now = time.time()
        seen = look(self.job, folder, now)
        decision = decide(seen, starts_of(folder, run), now, self.limits)
        if decision.verdict is Verdict.GIVE_UP:
            with closing(task_meter()) as meter:
                Monitor(MonitoringSettings(), meter).note(seen, now, given_up=True)
            raise AirflowException(f"{self.job} is given up: {decision.why}; its log: {folder.log_file}")
        if decision.verdict is Verdict.DONE:
            return {"job": self.job, "stages": dict(seen.stages)}
        if decision.verdict is Verdict.RESTART:
            end(seen, folder)
        if decision.verdict in (Verdict.START, Verdict.RESTART):
            if starts_of(folder, run):
                with closing(task_meter()) as meter:
                    meter.tell(RESTARTS, job=self.job)
            note_start(folder, run, now)
            self._launch(self.job, folder)
        elif not starts_of(folder, run):
            note_start(folder, run, now)  # it ran already
        self.log.info("%s: %s (%s).", self.job, decision.verdict, decision.why)
        self.defer(
            trigger=HeartbeatTrigger(self.job, run, asdict(self.limits)),
            method_name=self.resume.__name__,
            kwargs={"run": run},
        )
        raise AssertionError("deferring does not return")


def _job(name: str) -> tuple[Job, JobFolder]:
    return job_of(StreamSettings().declarations, name), _folder(name)


def _folder(name: str) -> JobFolder:
    return JobFolder(StreamSettings().jobs_folder / name)


def _with(registry: Registry, queries: dict[str, str]) -> Registry:
    """The registry with those queries, new ones or others of the same name."""
    for name, sql in queries.items():
        registry = registry.put(name, sql)
    return registry
