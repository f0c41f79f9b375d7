"""Extensions that installed packages add as entry points: listed by name, imported only when requested.

A package declares what it adds in its pyproject.toml; Springline declares its own in the same way:

    [project.entry-points."springline.policies"]
    smallest = "springline_smallest:smallest"

Extensions below `springline.baselines` exist for comparison, and are marked so wherever names are listed.
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
        """All available names: those meant for use, then the baselines; none is imported."""
        baselines = self.baselines
        return tuple(sorted(_installed_entries(self.group), key=lambda name: (name in baselines, name)))

    @property
    def baselines(self) -> frozenset[str]:
        """The names that exist only for comparison."""
        return frozenset(
            name for name, entries in _installed_entries(self.group).items() if all(map(_is_baseline, entries))
        )

    def format_names(self) -> str:
        """Return all names as a text for people."""
        baseline_names = self.baselines
        usable = ", ".join(name for name in self.names if name not in baseline_names)
        baselines = ", ".join(name for name in self.names if name in baseline_names)
        return f"{usable}; baselines, for comparison: {baselines}" if baselines else usable or "none"

    def check(self, name: str, where: str = "") -> str:
        """Return `name` if exactly one package adds it; raises `ExtensionError`. `where` is for error messages."""
        self._require_entry(name, where or f"{self.noun} {name!r}")
        return name

    def load(self, name: str, where: str = "") -> Any:
        """Import and return the object of that entry point; raises `ExtensionError` if that is not possible."""
        where = where or f"{self.noun} {name!r}"
        entry = self._require_entry(name, where)
        try:
            return entry.load()
        except Exception as error:  # whatever the package's code raises at import
            raise _extension_error(entry, where, error) from error

    def call(self, name: str, argument: object, where: str = "") -> Any:
        """Call the function of that name with `argument` and return its result.

        Raises `ExtensionError`, also if the function fails; its own `PersistenceError` is raised unchanged.
        """
        where = where or f"{self.noun} {name!r}"
        function = self.load(name, where)
        try:
            return function(argument)
        except PersistenceError:
            raise
        except Exception as error:  # whatever the package's code raises
            raise _extension_error(self._require_entry(name, where), where, error) from error

    def _require_entry(self, name: str, where: str) -> EntryPoint:
        entries = _installed_entries(self.group).get(name, ())
        if len(entries) == 1:
            return entries[0]
        if entries:
            packages = " and ".join(sorted(f"{_package_name(entry)} ({entry.value})" for entry in entries))
            raise ExtensionError(f"{where}: {name!r} is provided by {packages}; uninstall all but one of them")
        if not self.names:
            raise ExtensionError(
                f"{where}: no {self.noun} is installed: the package springline is importable but not installed; "
                "run `make setup` or `pip install`"
            )
        raise ExtensionError(
            f"{where}: no installed package provides {name!r}; installed: {self.format_names()}; install "
            f"a package with the entry point {name!r} in the group {self.group}"
        )


@cache  # the metadata of installed packages does not change while a process lives
def _installed_entries(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name; duplicates, from a package that is on the path twice, are merged."""
    entries_by_name: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=group):
        entries_by_name.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {name: tuple(entries.values()) for name, entries in entries_by_name.items()}


def _extension_error(entry: EntryPoint, where: str, error: Exception) -> ExtensionError:
    if isinstance(error, ModuleNotFoundError):
        return ExtensionError(f"{where} needs the Python package {error.name}: {_remedy(entry, error.name or '')}")
    return ExtensionError(
        f"{where}: {entry.value} of the package {_package_name(entry)} failed: {type(error).__name__}: {error}; "
        "install another version of the package, or choose another name"
    )


def _remedy(entry: EntryPoint, module: str) -> str:
    """Return how to install a missing module: by the extra of the entry point's package that requires it."""
    package = re.sub(r"[-_.]+", "-", module.partition(".")[0]).lower()
    requirements = [_REQUIRED.match(each) for each in (entry.dist.requires or [] if entry.dist else [])]
    extras = [
        requirement[2]
        for requirement in requirements
        if requirement and re.sub(r"[-_.]+", "-", requirement[1]).lower() == package
    ]
    if not extras:
        return f"pip install {package}"
    extra = entry.name if entry.name in extras else extras[0]
    return f"pip install '{_package_name(entry)}[{extra}]'"


def _package_name(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "unknown"


def _is_baseline(entry: EntryPoint) -> bool:
    return entry.value.startswith(_BASELINES)


STORES = Extensions("springline.stores", "store")  # by the scheme of a URI: the function that opens a store
TABLE_FORMATS = Extensions("springline.table_formats", "table format")  # by the beginning of a URI: opens a table
POLICIES = Extensions("springline.policies", "policy")  # by name: the function that creates a policy
