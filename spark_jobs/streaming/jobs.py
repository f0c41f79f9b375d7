"""Stream jobs as they are declared in a file: each a table, of the kind that its `kind` names, `windows` if none.

What kinds there are depends on what is installed: kinds.py.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from springline.persistence.errors import ExtensionError
from springline.persistence.text.formatting import say_known
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import InvalidJobError, UnknownJobError
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.kinds import kind_named
from springline.spark_jobs.streaming.tracking.config import Tracked

_USUAL_KIND = "windows"


class TrackedJob(Job, Protocol):
    """A job whose records are tracked."""

    @property
    def tracked(self) -> Tracked: ...


def read_jobs(file: Path) -> dict[str, Job]:
    """The jobs that a file declares, by name; none if there is no file.

    Raises `InvalidJobError`, and what their kinds raise.
    """
    if not file.exists():
        return {}
    try:
        tables = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InvalidJobError(f"{file}: not TOML: {error}") from error
    return {name: _job(file, name, table) for name, table in tables.items()}


def job_of(file: Path, name: str) -> Job:
    """A declared job; raises `UnknownJobError`."""
    jobs = read_jobs(file)
    if name not in jobs:
        raise unknown_job(file, name, jobs)
    return jobs[name]


def unknown_job(file: Path, name: str, known: Collection[str]) -> UnknownJobError:
    """The error that no job of a name is declared, with what may have been meant of those `known` to who asks."""
    return UnknownJobError(f"no job {name!r} is declared in {file}; declared: {say_known(name, known)}")


def tracked_job_of(file: Path, name: str) -> TrackedJob:
    """A declared job whose records are tracked; raises `UnknownJobError`, also where they are not."""
    return as_tracked(job_of(file, name))


def is_tracked(job: Job) -> TypeGuard[TrackedJob]:
    """Whether a job's records are tracked."""
    return job.tracked is not None


def as_tracked(job: Job) -> TrackedJob:
    """A job whose records are tracked; raises `UnknownJobError` where they are not."""
    if not is_tracked(job):
        raise UnknownJobError(f"{job.name}: its records are not tracked")
    return job


def tracked_jobs(file: Path) -> dict[str, TrackedJob]:
    """The declared jobs whose records are tracked, by name."""
    return {name: job for name, job in read_jobs(file).items() if is_tracked(job)}


def _job(file: Path, name: str, table: Any) -> Job:
    declared = Declared.of(file, name, table)
    try:
        kind = kind_named(declared.kind or _USUAL_KIND)
    except ExtensionError as error:
        raise InvalidJobError(f"{declared.where}: {error}") from error
    return kind.declare(declared)
