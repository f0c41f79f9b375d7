"""Commands that start and stop the applications of jobs."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from springline.persistence.monitoring.logs import about, start_logging
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.terminal import print, print_json, print_nothing, print_result, progress
from springline.spark_jobs.streaming.application.startup import start_and_wait
from springline.spark_jobs.streaming.application.stop import end_by_force, living, stop_all
from springline.spark_jobs.streaming.application.supervision import launch
from springline.spark_jobs.streaming.commands.arguments import JobName, Json, job_named
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.jobs import job_of, read_jobs
from springline.spark_jobs.streaming.kafka.probe import require_answer
from springline.spark_jobs.streaming.runtime.thread_dump import tell_stacks_when_asked
from springline.spark_jobs.streaming.settings import StreamSettings

logger = logging.getLogger("springline.stream")


def run(
    job: JobName,
    apart: Annotated[bool, typer.Option("--apart", hidden=True, help="Be the one of the stages apart")] = False,
) -> None:
    """Be a job's application until it is asked to stop; its DAG does this for you."""
    from springline.spark_jobs.streaming.application.application import run_apart, run_job  # starts with Spark

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


def start(
    job: JobName,
    timeout: Annotated[float, typer.Option(help="Seconds to wait while nothing gets on, until it runs")] = 120.0,
    as_json: Json = False,
) -> None:
    """Start a job's application in the background, without a DAG; returns when every stage has ended a round."""
    _, folder = job_named(job)
    require_answer(StreamSettings().cluster)
    say = print_nothing if as_json else lambda line: print(line, file=sys.stderr, flush=True)
    with progress(f"starting {job}", quiet=as_json):
        seen = start_and_wait(job, folder, timeout, say, launch)
    print_result(as_json, {"job": job, "state": seen.state, "pid": seen.pid}, f"{job}: running, process {seen.pid}")


def stop(
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs; none: all")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until all have ended")] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of jobs that do not run")] = False,
    kill: Annotated[bool, typer.Option("--kill", help="End by force those that have not ended by then")] = False,
    as_json: Json = False,
) -> None:
    """End jobs' applications, all at once, when the rounds that are planned are through."""
    settings = StreamSettings()
    folders = [job_named(job)[1] for job in jobs] if jobs else settings.folders()
    lives = living(folders)
    say = print_nothing if as_json else print
    with progress("ending stream jobs", quiet=as_json or not lives):
        left = stop_all(lives, timeout, say)
        if kill:
            left = end_by_force(left, say)
    if left:
        names = ", ".join(folder.path.name for folder in left)
        logs = ", ".join(str(folder.log_file) for folder in left)
        how = "it lives even when killed" if kill else "give it longer (--timeout), or end it by force (--kill)"
        raise StreamError(f"{names}: asked to stop, and still running after {timeout:g} s: {how}; its log: {logs}")
    ran = {folder.path.name for folder in lives}
    asked = jobs or ([] if quiet else sorted(read_jobs(settings.declarations)))
    if as_json:
        print_json([{"job": job, "ended": job in ran} for job in sorted({*asked, *ran})])
        return
    for job in () if quiet else asked:
        if job not in ran:
            print(f"{job}: does not run")
