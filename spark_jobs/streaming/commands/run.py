"""Commands that start and stop the applications of jobs."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from springline.persistence.monitoring.logs import configure_logging, log_context
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.terminal import discard_text, print, print_json, print_result, progress
from springline.spark_jobs.streaming.application.startup import start_and_wait
from springline.spark_jobs.streaming.application.stop import end_by_force, running_folders, stop_all
from springline.spark_jobs.streaming.application.supervision import launch
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.declarations import read_tables, unknown_job
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.probe import require_answer
from springline.spark_jobs.streaming.runtime.thread_dump import dump_stacks_on_signal
from springline.spark_jobs.streaming.settings import StreamSettings

logger = logging.getLogger("springline.stream")


def run(
    job: JobName,
    second_application: Annotated[
        bool, typer.Option("--second-application", hidden=True, help="Run as the second application")
    ] = False,
) -> None:
    """Run a job in the foreground until it is stopped (used by its DAG)."""
    from springline.spark_jobs.streaming.spark.session import start_session  # which imports PySpark

    settings, monitoring = StreamSettings(), MonitoringSettings()
    configure_logging(monitoring, sys.stdout)
    dump_stacks_on_signal()
    try:
        with log_context(job=job):
            session = start_session(job, settings)  # before what takes as long to import

            from springline.spark_jobs.streaming.application.application import run_job, run_second_application
            from springline.spark_jobs.streaming.jobs import read_job

            run_application = run_second_application if second_application else run_job
            run_application(read_job(settings.declarations, job), settings, session)
    except Exception as error:
        if monitoring.log_format == "text":
            raise
        with log_context(job=job):
            logger.exception("%s", error)
        raise typer.Exit(1) from None


def start(
    job: JobName,
    timeout: Annotated[float, typer.Option(help="Seconds without progress after which the start has failed")] = 120.0,
    as_json: Json = False,
) -> None:
    """Start a job's application in the background, without a DAG, and wait until every stage has completed a round."""
    settings = StreamSettings()
    folder = _folder(job, settings)
    require_answer(settings.cluster)
    say = discard_text if as_json else lambda line: print(line, file=sys.stderr, flush=True)
    with progress(f"starting {job}", quiet=as_json):
        try:
            status = start_and_wait(job, folder, timeout, say, launch)
        except StreamError:
            from springline.spark_jobs.streaming.jobs import read_job  # which imports every kind of job

            read_job(settings.declarations, job)  # if that is the reason, it says so
            raise
    took = f", after {sum(phase.seconds for phase in status.start):.1f} s" if status.start else ""
    print_result(
        as_json,
        {"job": job, "state": status.state, "pid": status.pid, "start": [asdict(phase) for phase in status.start]},
        f"{job}: running, process {status.pid}{took}",
    )


def stop(
    jobs: Annotated[list[str] | None, typer.Argument(help="Jobs; default: all")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until all have stopped")] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing about jobs that are not running")] = False,
    kill: Annotated[bool, typer.Option("--kill", help="Kill jobs that have not stopped by then")] = False,
    as_json: Json = False,
) -> None:
    """Stop the applications of jobs, all in parallel, once their planned rounds are completed."""
    settings = StreamSettings()
    folders = [_folder(job, settings) for job in jobs] if jobs else settings.folders()
    running = running_folders(folders)
    say = discard_text if as_json else print
    with progress("stopping stream jobs", quiet=as_json or not running):
        left = stop_all(running, timeout, say)
        if kill:
            left = end_by_force(left, say)
    if left:
        names = ", ".join(folder.path.name for folder in left)
        logs = ", ".join(str(folder.log_file) for folder in left)
        remedy = "it survived SIGKILL" if kill else "wait longer (--timeout), or kill it (--kill)"
        raise StreamError(f"{names}: still running {timeout:g} s after the request to stop: {remedy}; log: {logs}")
    ran = {folder.path.name for folder in running}
    asked = jobs or ([] if quiet else sorted(read_tables(settings.declarations)))
    if as_json:
        print_json([{"job": job, "stopped": job in ran} for job in sorted({*asked, *ran})])
        return
    for job in () if quiet else asked:
        if job not in ran:
            print(f"{job}: not running")


def _folder(job: str, settings: StreamSettings) -> JobFolder:
    """Return the folder of a declared job; raises `UnknownJobError`. No kind of job is imported."""
    declared = read_tables(settings.declarations)
    if job not in declared:
        raise unknown_job(settings.declarations, job, declared)
    return settings.folder(job)
