"""The command that resets a stopped job, so that it starts from scratch."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from springline.persistence.text.terminal import print, print_result, progress
from springline.spark_jobs.streaming.commands.arguments import JobName, Json
from springline.spark_jobs.streaming.commands.jobs import job_named, opened_log, opened_platform
from springline.spark_jobs.streaming.errors import AlreadyRunningError, StreamError
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.reset import find_footprint, readers_of, reset_job
from springline.spark_jobs.streaming.settings import StreamSettings


def reset(
    job: JobName,
    queries: Annotated[
        bool,
        typer.Option(
            "--queries", help="Also delete its registered queries; the next start registers the declared ones"
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")] = False,
    as_json: Json = False,
) -> None:
    """Delete everything that a stopped job keeps, including its results, but not its source topic."""
    settings = StreamSettings()
    declared, folder = job_named(job)
    if folder.is_running() or folder.starting_process() is not None:
        raise AlreadyRunningError(f"{job}: it is running; stop it first: springline stream stop {job}")
    with (
        opened_platform("command line") as platform,
        opened_log() as log,
    ):
        footprint = find_footprint(declared, folder, settings, platform, log, include_user_files=queries)
        lines = footprint.describe()
        readers = readers_of(footprint.topics, iter(read_jobs(settings.declarations).values())) if lines else ()
        result = {"job": job, "deleted": lines, "readers": list(readers)}
        if not lines:
            print_result(as_json, result, f"{job}: there is nothing to delete")
            return
        stream = sys.stderr if as_json else sys.stdout
        print(f"to be deleted of {job}:", *lines, sep="\n  ", file=stream)
        for reader in result["readers"]:
            print(f"The job {reader} reads the results of {job}: reset or rewind it too", file=stream)
        _confirm(job, yes)
        with progress(f"resetting {job}", quiet=as_json), folder.application_lock():
            reset_job(
                find_footprint(declared, folder, settings, platform, log, include_user_files=queries), platform, log
            )
    print_result(as_json, result, f"{job}: deleted; its next start begins from scratch")


def _confirm(job: str, yes: bool) -> None:
    """Ask for confirmation, on a terminal only."""
    if yes:
        return
    if not _on_terminal():
        raise StreamError(f"{job}: nothing was deleted: without a terminal, give --yes")
    typer.confirm("Delete all this?", abort=True, err=True)


def _on_terminal() -> bool:
    return sys.stdin.isatty()
