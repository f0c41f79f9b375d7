"""Which files are of Python's libraries: its own, and what is installed."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})  # of another environment too, or of the user alone


def library_folder(path: Path) -> Path | None:
    """The folder of libraries, the innermost one, that the resolved `path` lies in; None for a file of one's own."""
    installed = next((parent for parent in path.parents if parent.name in _INSTALLED), None)
    return installed or next((folder for folder in _folders() if path.is_relative_to(folder)), None)


@cache
def _folders() -> tuple[Path, ...]:
    found = {Path(sysconfig.get_paths()[key]).resolve() for key in _PATHS}
    return tuple(sorted(found, key=lambda path: len(path.parts), reverse=True))
