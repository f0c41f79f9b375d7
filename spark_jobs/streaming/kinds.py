"""Kinds of stream jobs: each comes with an installed package, under its name in the entry points of `GROUP`.

The project's own come so too; nothing is built in. In the `pyproject.toml` of a package that brings one:

    [project.entry-points."springline.stream_kinds"]
    heights = "heights.job:KIND"        # a `Kind`; a table of streams.toml says kind = "heights"

A kind is imported when a table names it, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from springline.persistence.text.formatting import say_known
from springline.spark_jobs.streaming.config import Declared
from springline.spark_jobs.streaming.errors import BadKind
from springline.spark_jobs.streaming.job import Job

GROUP = "springline.stream_kinds"
_OURS = "springline"


@dataclass(frozen=True)
class Kind:
    """A kind of stream job.

    Args:
        name: What `kind` says in the table of such a job; the same name as that of the entry point.
        declare: Makes a job of its table; raises `BadJob` where the table says something impossible.

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
    """The kind of a name; raises `BadKind` where no package brings it, or several do, or it cannot be imported."""
    found = _installed().get(name, ())
    if not found:
        raise BadKind(_unknown(name))
    if len(found) > 1:
        brought = " and ".join(sorted(f"{_package(each)} ({each.value})" for each in found))
        raise BadKind(f"kind {name!r} is registered by {brought}; uninstall all but one of them")
    (entry,) = found
    try:
        kind = entry.load()
    except Exception as error:  # whatever the code of a package does when it is imported
        raise BadKind(
            f"kind {name!r} of the package {_package(entry)} cannot be loaded from {entry.value}: "
            f"{type(error).__name__}: {error}; {_remedy(entry, error)}"
        ) from error
    if not isinstance(kind, Kind) or kind.name != name:
        what = f"the kind {kind.name!r}" if isinstance(kind, Kind) else f"of type {type(kind).__name__}"
        raise BadKind(
            f"kind {name!r} of the package {_package(entry)}: {entry.value} is {what}; it has to be "
            f"a springline.stream_kinds.Kind of the name {name!r}"
        )
    return kind


@cache  # entry points are files of all installed packages; they do not change while a process lives
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of kinds, by name."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _unknown(name: str) -> str:
    known = _installed()
    if not known:
        return (
            f"no kind of stream job is installed, so kind {name!r} is none: the package springline is on the path, but "
            "is not installed; pip install it, from its checkout by `pip install -e .`"
        )
    return (
        f"kind {name!r}: no installed package brings it; known: {say_known(name, known)}; install the package that "
        f"has {name!r} among its entry points {GROUP}"
    )


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "without a name"


def _remedy(entry: EntryPoint, error: Exception) -> str:
    package = entry.dist.name if entry.dist is not None else "the package"
    if isinstance(error, ModuleNotFoundError):
        extra = "[streams]" if package == _OURS else ""
        return f"install what it needs: pip install '{package}{extra}'"
    return f"install a version of {package} that fits this one"
