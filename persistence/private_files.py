"""Folders and files for their owner alone: what lies in a home, whatever the mask of the process is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OTHERS = 0o077


def private_folder(folder: Path) -> Path:
    """Make a folder for its owner alone; one of ours that was made for others too is mended."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _mend(folder)
    return folder


def private_file(file: Path) -> Path:
    """Make an empty file for its owner alone, where there is none; one of ours that others may read is mended.

    A file that is there is not opened: closing it would end all locks (POSIX) that this process has on it, and SQLite
    relies on those.
    """
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _mend(file)
    return file


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


def _mend(path: Path) -> None:
    status = path.stat()
    if status.st_mode & _OTHERS and status.st_uid == os.geteuid():
        path.chmod(status.st_mode & 0o7777 & ~_OTHERS)
