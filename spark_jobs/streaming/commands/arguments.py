"""What commands of streams are given, and what it stands for."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.jobs import Job, job_of
from spark_jobs.streaming.settings import StreamSettings

Json = Annotated[bool, typer.Option("--json", help="Print JSON")]
JobName = Annotated[str, typer.Argument(help="A job of streams.toml")]


def job_named(name: str) -> tuple[Job, JobFolder]:
    """A declared job and its folder; raises `UnknownJob`."""
    settings = StreamSettings()
    return job_of(settings.declarations, name), settings.folder(name)
