"""Kinds of stream jobs: each comes with an installed package, under its name in the entry points of `KINDS`.

The project's own come so too; nothing is built in. In the `pyproject.toml` of a package that brings one:

    [project.entry-points."springline.stream_kinds"]
    heights = "heights.job:KIND"        # a `Kind`; a table of streams.toml says kind = "heights"

A kind is imported when a table names it, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springline.persistence.errors import ExtensionError
from springline.persistence.extensions import Extensions
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.job import Job

KINDS = Extensions("springline.stream_kinds", "kind")


@dataclass(frozen=True)
class Kind:
    """A kind of stream job.

    Args:
        name: What `kind` says in the table of such a job; the same name as that of the entry point.
        declare: Makes a job of its table; raises `InvalidJobError` where the table says something impossible.

    Example:
        >>> def declare(table: Declared) -> Job:
        ...     table.check({"least"})
        ...     raise NotImplementedError("make a job of the table")
        >>> Kind("heights", declare).name
        'heights'
    """

    name: str
    declare: Callable[[Declared], Job]


def kind_named(name: str) -> Kind:
    """The kind of a name; raises `ExtensionError` where no package brings it, or it cannot be used."""
    kind = KINDS.load(name)
    if not isinstance(kind, Kind) or kind.name != name:
        what = f"the kind {kind.name!r}" if isinstance(kind, Kind) else f"of type {type(kind).__name__}"
        raise ExtensionError(f"kind {name!r} is {what}; it has to be a springline.stream_kinds.Kind of that name")
    return kind
