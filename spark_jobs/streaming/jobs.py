"""Reads stream jobs from the file that declares them: one table each, of the kind in its key `kind` (default
`windows`).

The available kinds depend on the installed packages: see kinds.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from springline.persistence.errors import ExtensionError
from springline.spark_jobs.streaming.declarations import read_tables, unknown_job
from springline.spark_jobs.streaming.errors import InvalidJobError, UnknownJobError
from springline.spark_jobs.streaming.job import Job, topics_of_stages
from springline.spark_jobs.streaming.job_keys import check_name, read_keys
from springline.spark_jobs.streaming.kinds import load_kind
from springline.spark_jobs.streaming.runtime.topic_union import topics_of
from springline.spark_jobs.streaming.tracking.config import TrackingConfig

_DEFAULT_KIND = "windows"


class TrackedJob(Job, Protocol):
    """A job whose records are tracked."""

    @property
    def tracking(self) -> TrackingConfig: ...


def read_jobs(file: Path) -> dict[str, Job]:
    """Return the jobs that a file declares, by name; empty if the file does not exist.

    Raises `InvalidJobError`, and what the kinds raise.
    """
    jobs = {name: _declare_job(file, name, table) for name, table in read_tables(file).items()}
    _check_loops(file, jobs)
    return jobs


def read_job(file: Path, name: str) -> Job:
    """Return a declared job; raises `UnknownJobError`."""
    jobs = read_jobs(file)
    if name not in jobs:
        raise unknown_job(file, name, jobs)
    return jobs[name]


def read_tracked_job(file: Path, name: str) -> TrackedJob:
    """Return a declared job whose records are tracked; raises `UnknownJobError`, also if they are not tracked."""
    return as_tracked(read_job(file, name))


def is_tracked(job: Job) -> TypeGuard[TrackedJob]:
    """Return whether a job's records are tracked."""
    return job.tracking is not None


def as_tracked(job: Job) -> TrackedJob:
    """Narrow a job to a tracked one; raises `UnknownJobError` if its records are not tracked."""
    if not is_tracked(job):
        raise UnknownJobError(f"{job.name}: its records are not tracked")
    return job


def read_tracked_jobs(file: Path) -> dict[str, TrackedJob]:
    """Return the declared jobs whose records are tracked, by name."""
    return {name: job for name, job in read_jobs(file).items() if is_tracked(job)}


def _check_loops(file: Path, jobs: Mapping[str, Job]) -> None:
    """Raise `InvalidJobError` if a job reads what it writes, itself or over other jobs: its rows would never end."""
    written = {name: topics_of_stages(job).keys() for name, job in jobs.items()}
    sources = {
        name: [writer for writer, topics in written.items() if topics & set(topics_of(job.topic))]
        for name, job in jobs.items()
    }
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        writers = error.args[1]
        path = ", and ".join(f"{reader} reads what {writer} writes" for writer, reader in pairwise(writers))
        raise InvalidJobError(
            f"{file}, job {writers[-1]!r}: topic = {jobs[writers[-1]].topic!r} makes a loop: {path}; read another topic"
        ) from None


def _declare_job(file: Path, name: str, table: Any) -> Job:
    where = f"{file}, job {name!r}"
    check_name(name, where)
    kind_name = table.get("kind", _DEFAULT_KIND) if isinstance(table, dict) else _DEFAULT_KIND
    if not isinstance(kind_name, str):
        raise InvalidJobError(f"{where}: kind = {kind_name!r}; expected a text")
    try:
        kind = load_kind(kind_name)
    except ExtensionError as error:
        raise InvalidJobError(f"{where}: {error}") from error
    keys = read_keys(kind.keys, table, where)
    try:
        return kind.declare(name, keys)
    except InvalidJobError as error:
        raise InvalidJobError(f"{where}: {error}") from error
