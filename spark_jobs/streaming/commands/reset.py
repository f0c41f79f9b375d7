"""The command that lets a stopped job begin anew, as if it had never run."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated

import typer

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.persistence.text.terminal import print, print_result, progress
from springline.spark_jobs.streaming.commands.arguments import JobName, Json, job_named, opened_log
from springline.spark_jobs.streaming.errors import AlreadyRunningError, StreamError
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.reset import forget, kept_by, readers_of
from springline.spark_jobs.streaming.settings import StreamSettings


def reset(
    job: JobName,
    queries: Annotated[
        bool, typer.Option("--queries", help="Its queries too: it begins with those of its declaration")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first")] = False,
    as_json: Json = False,
) -> None:
    """Delete all that a stopped job keeps, its results too, so that it begins anew; what it reads stays."""
    settings = StreamSettings()
    declared, folder = job_named(job)
    if folder.runs() or folder.coming() is not None:
        raise AlreadyRunningError(f"{job}: it runs; stop it first: springline stream stop {job}")
    with (
        closing(open_platform(Settings(), runner=NoRunner(), who="command line")) as platform,
        opened_log() as log,
    ):
        kept = kept_by(declared, folder, settings, platform, log, chosen=queries)
        lines = kept.say()
        readers = readers_of(kept.topics, iter(read_jobs(settings.declarations).values())) if lines else ()
        result = {"job": job, "deleted": lines, "readers": list(readers)}
        if not lines:
            print_result(as_json, result, f"{job}: it keeps nothing")
            return
        said = sys.stderr if as_json else sys.stdout
        print(f"{job} keeps:", *lines, sep="\n  ", file=said)
        for reader in result["readers"]:
            print(f"The job {reader} reads what {job} tells: reset it too, or rewind it", file=said)
        _confirm(job, yes)
        with progress(f"deleting what {job} keeps", quiet=as_json), folder.held():
            forget(kept_by(declared, folder, settings, platform, log, chosen=queries), platform, log)
    print_result(as_json, result, f"{job}: all this is deleted; it begins anew when it is started")


def _confirm(job: str, yes: bool) -> None:
    """Ask, where somebody is there who can answer."""
    if yes:
        return
    if not _on_terminal():
        raise StreamError(f"{job}: nothing was deleted; give --yes where nobody can be asked")
    typer.confirm("Delete all this?", abort=True, err=True)


def _on_terminal() -> bool:
    return sys.stdin.isatty()
