"""Atomic replacement of files: each is written to a temporary name, and renamed.

A value that has its own file is encoded by a `Codec`. Values that are broadcast with rounds are plain JSON: they are
logged as they are in the file.
"""

from __future__ import annotations

import errno
import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import DiskFullError

T = TypeVar("T")

_TEMPORARY_NAME = re.compile(r"\.[0-9a-f]{32}")
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def atomic_file(folder: Path) -> Iterator[Path]:
    """Provide a temporary name for a file that is written, and renamed, while inside; it is removed otherwise.

    Raises `DiskFullError`.
    """
    temporary = folder / f".{uuid.uuid4().hex}"
    try:
        with full_disk_named(folder):
            yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def full_disk_named(folder: Path) -> Iterator[None]:
    """Raise `DiskFullError`, which names the folder, where the disk is full while inside."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL_ERRORS:
            raise DiskFullError(f"{folder}: {os.strerror(error.errno)}") from error
        raise


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files of killed processes in a folder and below; no process may be writing there."""
    for path in folder.rglob(".*"):
        if _TEMPORARY_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically; raises `DiskFullError`."""
    with atomic_file(path.parent) as temporary:
        temporary.write_bytes(content)
        temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Replace a file atomically with a JSON value; raises `DiskFullError`."""
    replace_file(path, json.dumps(value).encode())


def read_json(path: Path) -> Any:
    """Return the JSON value in a file; None if the file does not exist. Raises `DecodeError`."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{path} cannot be read: {error}") from error


def write_value(path: Path, codec: Codec[T], value: T) -> None:
    """Replace a file atomically with an encoded value; raises `DiskFullError`."""
    replace_file(path, codec.encode(value))


def read_value(path: Path, codec: Codec[T]) -> T | None:
    """Return the decoded value in a file; None if the file does not exist. Raises `DecodeError`."""
    try:
        return codec.decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
