"""What installed packages bring under a group of entry points: listed by name, imported only when it is named.

The project's own come the same way. In the `pyproject.toml` of a package that brings a join strategy:

    [project.entry-points."springline.join_strategies"]
    nearest = "shop.placement:Nearest"      # a table of streams.toml says strategy = "nearest"

What lies below `springline.baselines` is there to be compared with, and is told as such wherever names are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from springline.spark_jobs.streaming.errors import BadExtension

_BASELINES = "springline.baselines."


@dataclass(frozen=True)
class Extensions:
    """The entry points of a group.

    Args:
        group: Its name, as packages have it in their `pyproject.toml`.
        noun: What one of them is, in errors.

    Example:
        >>> Extensions("springline.join_strategies", "join strategy").names
        ('djb', 'heavy-split', 'heavy-split-work', 'hash', 'jb', 'jb6')
    """

    group: str
    noun: str

    @property
    def names(self) -> tuple[str, ...]:
        """All that may be chosen: what is meant to be used, then the baselines."""
        found = _installed(self.group)
        return tuple(sorted(found, key=lambda name: (_is_baseline(found[name]), name)))

    @property
    def baselines(self) -> frozenset[str]:
        """Those that are there to be compared with."""
        return frozenset(name for name, entry in _installed(self.group).items() if _is_baseline(entry))

    def say_names(self) -> str:
        """All names, for a person."""
        if not self.names:
            return "none, since the package springline is on the path without being installed: pip install it"
        used, baselines = (
            ", ".join(name for name in self.names if (name in self.baselines) is compared) for compared in (False, True)
        )
        return f"{used}; baselines, to compare with: {baselines}" if baselines else used

    def check(self, name: str) -> str:
        """The name, if a package brings it; raises `BadExtension`, which lists those installed."""
        if name not in _installed(self.group):
            raise BadExtension(
                f"{self.noun} {name!r}: no installed package brings it among its entry points {self.group}; installed: "
                f"{self.say_names()}"
            )
        return name

    def load(self, name: str) -> Any:
        """What the entry point of that name leads to; raises `BadExtension` where there is none, or no way to it."""
        entry = _installed(self.group)[self.check(name)]
        try:
            return entry.load()
        except Exception as error:  # whatever the code of a package does when it is imported
            package = "a package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
            raise BadExtension(
                f"{self.noun} {name!r}: {entry.value} of {package} cannot be loaded: {type(error).__name__}: {error}; "
                f"install what it needs, or choose another: {self.say_names()}"
            ) from error


@cache  # the files of installed packages do not change while a process lives
def _installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; raises `BadExtension` where packages bring different things of one name."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        if found.setdefault(entry.name, entry).value != entry.value:
            both = " and ".join(
                "a package" if each.dist is None else each.dist.name for each in (found[entry.name], entry)
            )
            raise BadExtension(f"{group}: {entry.name!r} is brought by {both}; uninstall one of them")
    return found


def _is_baseline(entry: EntryPoint) -> bool:
    return entry.value.startswith(_BASELINES)
