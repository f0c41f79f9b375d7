"""Stream jobs as they are declared in a file: each a table, of the kind that its `kind` names.

windows     windowed statistics over a topic (the default): windows/job.py
wordcount   how often each word comes in lines of text, each line tracked: wordcount/job.py
join        a full-history join of two streams with any predicate: join/job.py
tracker     the tracker alone, for a topology that is not ours: tracker/job.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from springline.persistence.text.formatting import say_known
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import BadJob, UnknownJob
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.join.job import JoinJob, declared_join
from springline.spark_jobs.streaming.tracker.job import declared_tracker
from springline.spark_jobs.streaming.tracking.config import Tracked
from springline.spark_jobs.streaming.windows.job import WindowsJob, declared_windows
from springline.spark_jobs.streaming.wordcount.job import declared_wordcount

KINDS: Mapping[str, Callable[[Declared], Job]] = {
    "windows": declared_windows, "wordcount": declared_wordcount, "join": declared_join,
    "tracker": declared_tracker,
}  # fmt: skip


class TrackedJob(Job, Protocol):
    """A job whose records are tracked."""

    @property
    def tracked(self) -> Tracked: ...


def read_jobs(file: Path) -> dict[str, Job]:
    """The jobs that a file declares, by name; none if there is no file. Raises `BadJob`, `BadStream`."""
    if not file.exists():
        return {}
    try:
        told = tomllib.loads(file.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BadJob(f"{file}: not TOML: {error}") from error
    return {name: _job(file, name, table) for name, table in told.items()}


def job_of(file: Path, name: str) -> Job:
    """A declared job; raises `UnknownJob`."""
    jobs = read_jobs(file)
    if name not in jobs:
        raise unknown_job(file, name, jobs)
    return jobs[name]


def unknown_job(file: Path, name: str, known: Collection[str]) -> UnknownJob:
    """The error that no job of a name is declared, with what may have been meant of those `known` to who asks."""
    return UnknownJob(f"no job {name!r} is declared in {file}; declared: {say_known(name, known)}")


def windows_job_of(file: Path, name: str) -> WindowsJob:
    """A declared job of windowed statistics; raises `UnknownJob`, also where it is of another kind."""
    return as_windows(job_of(file, name))


def windows_jobs(file: Path) -> dict[str, WindowsJob]:
    """The declared jobs that have queries, by name."""
    return {name: job for name, job in read_jobs(file).items() if isinstance(job, WindowsJob)}


def as_windows(job: Job) -> WindowsJob:
    """A job that has queries; raises `UnknownJob` where it is of another kind."""
    if not isinstance(job, WindowsJob):
        raise UnknownJob(f"{job.name}: it computes no windowed statistics, so it has no queries")
    return job


def as_join(job: Job) -> JoinJob:
    """A job that joins two streams; raises `UnknownJob` where it is of another kind."""
    if not isinstance(job, JoinJob):
        raise UnknownJob(f"{job.name}: it joins nothing")
    return job


def tracked_job_of(file: Path, name: str) -> TrackedJob:
    """A declared job whose records are tracked; raises `UnknownJob`, also where they are not."""
    return as_tracked(job_of(file, name))


def is_tracked(job: Job) -> TypeGuard[TrackedJob]:
    """Whether a job's records are tracked."""
    return job.tracked is not None


def as_tracked(job: Job) -> TrackedJob:
    """A job whose records are tracked; raises `UnknownJob` where they are not."""
    if not is_tracked(job):
        raise UnknownJob(f"{job.name}: its records are not tracked")
    return job


def tracked_jobs(file: Path) -> dict[str, TrackedJob]:
    """The declared jobs whose records are tracked, by name."""
    return {name: job for name, job in read_jobs(file).items() if is_tracked(job)}


def _job(file: Path, name: str, table: Any) -> Job:
    told = Declared.of(file, name, table)
    return KINDS[told.choice("kind", tuple(KINDS))](told)
