"""Commands that start and stop the applications of jobs."""

from __future__ import annotations

import logging
import sys
import time
from typing import Annotated

import typer

from persistence.monitoring.logs import about, start_logging
from persistence.monitoring.settings import MonitoringSettings
from spark_jobs.streaming.commands.arguments import JobName, job_named
from spark_jobs.streaming.errors import StreamError
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.jobs import job_of, read_jobs
from spark_jobs.streaming.running.stacks import tell_stacks_when_asked
from spark_jobs.streaming.running.supervision import launch
from spark_jobs.streaming.running.watching import look
from spark_jobs.streaming.settings import StreamSettings

logger = logging.getLogger("springline.stream")

_BEGIN_SECONDS = 10.0  # until an application that was started holds its job


def run(
    job: JobName,
    apart: Annotated[bool, typer.Option("--apart", hidden=True, help="Be the one of the stages apart")] = False,
) -> None:
    """Be a job's application until it is asked to stop; its DAG does this for you."""
    from spark_jobs.streaming.running.application import run_apart, run_job  # starts with Spark

    settings, monitoring = StreamSettings(), MonitoringSettings()
    start_logging(monitoring, sys.stdout)
    tell_stacks_when_asked()
    try:
        with about(job=job):
            (run_apart if apart else run_job)(job_of(settings.declarations, job), settings)
    except Exception as error:
        if monitoring.log == "text":
            raise
        with about(job=job):
            logger.exception("%s", error)
        raise typer.Exit(1) from None


def start(job: JobName, patience: Annotated[float, typer.Option(help="Seconds to wait until it runs")] = 120.0) -> None:
    """Start a job's application in the background, without a DAG; returns when every stage has ended a round."""
    _, folder = job_named(job)
    if not folder.runs() and folder.coming() is None:
        launch(job, folder)
    until = time.monotonic() + patience
    while not (seen := look(job, folder, time.time())).works:
        ended = seen.began is None and time.monotonic() > until - patience + _BEGIN_SECONDS
        if ended or time.monotonic() > until:
            why = seen.error or f"it is {seen.state} after {patience - until + time.monotonic():.0f} s"
            raise StreamError(f"{job}: {why}; its log: {folder.log_file}")
        time.sleep(0.2)
    print(f"{job}: running, process {seen.pid}")


def stop(
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs; none: all")] = None,
    patience: Annotated[float, typer.Option(help="Seconds to wait until each has ended")] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of jobs that do not run")] = False,
) -> None:
    """End jobs' applications when the rounds that are planned are through."""
    settings = StreamSettings()
    for job in jobs or sorted(read_jobs(settings.declarations)):
        _, folder = job_named(job)
        if folder.runs():
            _stop(job, folder, patience)
        elif not quiet:
            print(f"{job}: does not run")


def _stop(job: str, folder: JobFolder, patience: float) -> None:
    folder.ask_to_stop()
    if not folder.await_end(patience):
        raise StreamError(f"{job}: asked to stop, and still running after {patience:g} s; its log: {folder.log_file}")
    print(f"{job}: stopped")
