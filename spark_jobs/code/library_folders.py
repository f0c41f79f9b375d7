"""Which files belong to libraries: Python's standard library, and installed packages."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = frozenset({"site-packages", "dist-packages"})  # also of other environments, or of the user's site


def library_folder(path: Path) -> Path | None:
    """Return the innermost library folder that contains the resolved `path`; None for user code."""
    installed = next((parent for parent in path.parents if parent.name in _INSTALLED), None)
    return installed or next((folder for folder in _folders() if path.is_relative_to(folder)), None)


@cache
def _folders() -> tuple[Path, ...]:
    folders = {Path(sysconfig.get_paths()[key]).resolve() for key in _PATHS}
    return tuple(sorted(folders, key=lambda path: len(path.parts), reverse=True))
