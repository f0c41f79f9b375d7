"""What installed packages add: found by entry point, and imported only when it is asked for by its name.

A package names what it adds in its pyproject.toml; Springline names its own in the same way:

    [project.entry-points."springline.policies"]
    smallest = "springline_smallest:smallest"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from springline.persistence.errors import Misuse, PersistenceError

STORES = "springline.stores"  # by the scheme of a URI: what opens a store
POLICIES = "springline.policies"  # by name: what makes an order of persisting

_REQUIRED = re.compile(r"^([\w.-]+).*;.*extra == ['\"]([\w.-]+)['\"]")


def extension_names(group: str) -> tuple[str, ...]:
    """The names that installed packages have in a group of entry points, sorted; none of them is imported."""
    return tuple(sorted(_installed(group)))


def call_extension(group: str, name: str, argument: object, *, where: str) -> Any:
    """What the function called `name` in a group returns for `argument`; `where` says who asked, for errors.

    Raises `Misuse` if no installed package, or more than one, has that name, or if it cannot be imported, or fails; its
    own `PersistenceError` is raised as it is.
    """
    entry = _entry(group, name, where)
    try:
        function: Callable[[object], Any] = entry.load()
        return function(argument)
    except ModuleNotFoundError as error:
        raise Misuse(f"{where} needs the Python package {error.name}: {_remedy(entry, error.name or '')}") from error
    except PersistenceError:
        raise
    except Exception as error:  # whatever the code of others does wrong
        raise Misuse(
            f"{where}: {entry.value} of the package {_package(entry)} failed: {type(error).__name__}: {error}; "
            "install another version of the package, or choose another name"
        ) from error


@cache
def _installed(group: str) -> dict[str, list[EntryPoint]]:
    """Once a process: packages do not change beneath it."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def _entry(group: str, name: str, where: str) -> EntryPoint:
    found = _installed(group).get(name, [])
    if len(found) == 1:
        return found[0]
    if found:
        packages = " and ".join(sorted(map(_package, found)))
        raise Misuse(f"{where}: {name!r} is added by {packages}; uninstall all but one of them")
    known = extension_names(group)
    if not known:
        raise Misuse(
            f"{where}: Springline is imported without being installed: `make setup` or `pip install` does that"
        )
    raise Misuse(
        f"{where}: no installed package adds {name!r}, only {', '.join(known)}; install the one that does "
        f"(it has {name!r} among its entry points {group})"
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
