"""Files for their owner alone: passwords, keys, and what holds them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Put a file there, for its owner alone; whoever is killed meanwhile leaves the old one, or none."""
    with _beside(path, text) as made:
        made.replace(path)


def write_private_once(path: Path, text: str) -> None:
    """The same, unless one is there: what is there stays."""
    if not path.exists():
        with _beside(path, text) as made, suppress(FileExistsError):  # somebody else was faster
            path.hardlink_to(made)


@contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    """The file under another name, which is gone afterwards."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
