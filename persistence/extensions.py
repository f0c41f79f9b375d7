"""What installed packages add under a group of entry points: listed by name, imported only when it is named.

A package names what it adds in its pyproject.toml; Springline names its own in the same way:

    [project.entry-points."springline.policies"]
    smallest = "springline_smallest:smallest"

What lies below `springline.baselines` is there to be compared with, and is told as such wherever names are listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from springline.persistence.errors import ExtensionError, PersistenceError

_BASELINES = "springline.baselines."
_REQUIRED = re.compile(r"^([\w.-]+).*;.*extra == ['\"]([\w.-]+)['\"]")


@dataclass(frozen=True)
class Extensions:
    """The entry points of a group.

    Args:
        group: its name, as packages have it in their `pyproject.toml`.
        noun: what one of them is, for errors.

    Example:
        >>> Extensions("springline.policies", "policy").names
        ('paper', 'value-density', 'edge', 'fifo', 'hash-order', 'lrc')
    """

    group: str
    noun: str

    @property
    def names(self) -> tuple[str, ...]:
        """All that may be chosen: what is meant to be used, then the baselines; none of them is imported."""
        baselines = self.baselines
        return tuple(sorted(_installed(self.group), key=lambda name: (name in baselines, name)))

    @property
    def baselines(self) -> frozenset[str]:
        """Those that are there to be compared with."""
        return frozenset(name for name, entries in _installed(self.group).items() if all(map(_is_baseline, entries)))

    def say_names(self) -> str:
        """All names, for a person."""
        compared = self.baselines
        used = ", ".join(name for name in self.names if name not in compared)
        baselines = ", ".join(name for name in self.names if name in compared)
        return f"{used}; baselines, to compare with: {baselines}" if baselines else used or "none"

    def check(self, name: str, where: str = "") -> str:
        """The name, if exactly one package adds it; raises `ExtensionError`. `where` says who asked, for errors."""
        self._entry(name, where or f"{self.noun} {name!r}")
        return name

    def load(self, name: str, where: str = "") -> Any:
        """What the entry point of that name leads to; raises `ExtensionError` where there is none, or no way to it."""
        where = where or f"{self.noun} {name!r}"
        entry = self._entry(name, where)
        try:
            return entry.load()
        except Exception as error:  # whatever the code of a package does when it is imported
            raise _failure(entry, where, error) from error

    def call(self, name: str, argument: object, where: str = "") -> Any:
        """What the function of that name returns for `argument`.

        Raises `ExtensionError`, also where the function fails; its own `PersistenceError` is raised as it is.
        """
        where = where or f"{self.noun} {name!r}"
        function = self.load(name, where)
        try:
            return function(argument)
        except PersistenceError:
            raise
        except Exception as error:  # whatever the code of others does wrong
            raise _failure(self._entry(name, where), where, error) from error

    def _entry(self, name: str, where: str) -> EntryPoint:
        entries = _installed(self.group).get(name, ())
        if len(entries) == 1:
            return entries[0]
        if entries:
            packages = " and ".join(sorted(f"{_package(entry)} ({entry.value})" for entry in entries))
            raise ExtensionError(f"{where}: {name!r} is added by {packages}; uninstall all but one of them")
        if not self.names:
            raise ExtensionError(
                f"{where}: no {self.noun} is installed: Springline is on the path without being installed; "
                "`make setup` or `pip install` does that"
            )
        raise ExtensionError(
            f"{where}: no installed package adds {name!r}; known: {self.say_names()}; install "
            f"the package that has {name!r} among its entry points {self.group}"
        )


@cache  # the files of installed packages do not change while a process lives
def _installed(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name; the same one twice, as of a package on the path twice, is one."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {name: tuple(entries.values()) for name, entries in found.items()}


def _failure(entry: EntryPoint, where: str, error: Exception) -> ExtensionError:
    if isinstance(error, ModuleNotFoundError):
        return ExtensionError(f"{where} needs the Python package {error.name}: {_remedy(entry, error.name or '')}")
    return ExtensionError(
        f"{where}: {entry.value} of the package {_package(entry)} failed: {type(error).__name__}: {error}; "
        "install another version of the package, or choose another name"
    )


def _remedy(entry: EntryPoint, module: str) -> str:
    """How to install a module that is missing: by the extra of the entry point's package that requires it."""
    wanted = re.sub(r"[-_.]+", "-", module.partition(".")[0]).lower()
    required = [_REQUIRED.match(each) for each in (entry.dist.requires or [] if entry.dist else [])]
    extras = [found[2] for found in required if found and re.sub(r"[-_.]+", "-", found[1]).lower() == wanted]
    if not extras:
        return f"pip install {wanted}"
    extra = entry.name if entry.name in extras else extras[0]
    return f"pip install '{_package(entry)}[{extra}]'"


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "unknown"


def _is_baseline(entry: EntryPoint) -> bool:
    return entry.value.startswith(_BASELINES)


STORES = Extensions("springline.stores", "store")  # by the scheme of a URI: what opens a store
POLICIES = Extensions("springline.policies", "policy")  # by name: what makes an order of persisting
