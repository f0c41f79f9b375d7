"""Kinds of stream jobs: installed packages register them in the entry-point group of `KINDS`.

The project's own kinds are registered the same way; none is built in. In the `pyproject.toml` of a package with a kind:

    [project.entry-points."springline.stream_kinds"]
    heights = "heights.job:KIND"        # a `Kind`; a table of streams.toml says kind = "heights"

A kind is imported only when a table names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.job import Job
from springline.spark_jobs.streaming.job_keys import JobKeys

KINDS = Extensions("springline.stream_kinds", "kind")


@dataclass(frozen=True)
class Kind:
    """A kind of stream job.

    Args:
        name: Value of `kind` in the table of such a job; the same as the name of the entry point.
        keys: Class of the keys in the table of such a job.
        declare: Creates a job from its name and its keys; raises `InvalidJobError` if they contradict each other.

    Example:
        >>> def declare(name: str, keys: JobKeys) -> Job:
        ...     raise NotImplementedError("make a job of the keys")
        >>> Kind("heights", JobKeys, declare).name
        'heights'
    """

    name: str
    keys: type[JobKeys]
    declare: Callable[[str, Any], Job]


def load_kind(name: str) -> Kind:
    """Return the kind of that name; raises `ExtensionError` if no package provides it, or it is invalid."""
    kind = KINDS.load(name)
    if not isinstance(kind, Kind) or kind.name != name:
        actual = f"the kind {kind.name!r}" if isinstance(kind, Kind) else f"of type {type(kind).__name__}"
        raise ExtensionError(f"kind {name!r} is {actual}; expected a springline.stream_kinds.Kind of that name")
    return kind
