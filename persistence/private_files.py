"""Folders and files that only their owner can access, such as those in a home, regardless of the process's umask."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from springline.persistence.errors import StorageUnavailableError

_GROUP_AND_OTHERS = 0o077


def create_private_folder(folder: Path) -> Path:
    """Create a folder for its owner only; the permissions of an existing one that we own are restricted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _restrict_permissions(folder)
    return folder


def create_private_file(file: Path) -> Path:
    """Create an empty file for its owner only, if there is none; the permissions of an existing one are restricted.

    An existing file is not opened: closing it would release all locks (POSIX) that this process has on it, and SQLite
    relies on those.
    """
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _restrict_permissions(file)
    return file


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner only, atomically: a process killed meanwhile leaves the old file, or none."""
    with _temporary_file(path, text) as temporary:
        temporary.replace(path)


def write_private_once(path: Path, text: str) -> None:
    """Like `write_private`, but an existing file is kept."""
    if not path.exists():
        with _temporary_file(path, text) as temporary, suppress(FileExistsError):  # another process was faster
            path.hardlink_to(temporary)


@contextmanager
def _temporary_file(path: Path, text: str) -> Iterator[Path]:
    """Yield the file under a temporary name that is removed afterwards."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _restrict_permissions(path: Path) -> None:
    status = path.stat()
    if status.st_mode & _GROUP_AND_OTHERS and status.st_uid == os.geteuid():
        path.chmod(status.st_mode & 0o7777 & ~_GROUP_AND_OTHERS)


def default_cache_folder(home: Path) -> Path:
    """Return a folder in memory used by this home only; on disk if the system has no /dev/shm."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        return home / "cache"
    return shared / f"springline-{hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:12]}"


def create_private_cache(home: Path) -> Path:
    """Create the default cache, for its owner only; raises `StorageUnavailableError` if another user owns it.

    Every user can create folders in /dev/shm, and the name of this one can be guessed.
    """
    folder = default_cache_folder(home)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or _owner_id(folder) not in (os.geteuid(), _owner_id(home)):
        raise StorageUnavailableError(
            f"{folder} belongs to another user: remove it, or set SPRINGLINE_CACHE_URI to another folder"
        )
    if _owner_id(folder) == os.geteuid():
        folder.chmod(0o700)
    return folder


def _owner_id(path: Path) -> int:
    return path.stat().st_uid
