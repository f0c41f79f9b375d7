"""Files for their owner alone: passwords, keys, and what holds them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Put a file there, for its owner alone; whoever is killed meanwhile leaves the old one, or none."""
    _beside(path, text).replace(path)


def write_private_once(path: Path, text: str) -> None:
    """The same, unless one is there: what is there stays."""
    if path.exists():
        return
    made = _beside(path, text)
    try:
        path.hardlink_to(made)
    except FileExistsError:  # somebody else was faster
        pass
    finally:
        made.unlink()


def _beside(path: Path, text: str) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(name)
