"""Files that appear as a whole, among them small ones of JSON: written under another name, and renamed.

A value that lies alone in its file is encoded by a `Codec`. What rounds name lies plain: a round that names it has a
number already, and takes it as it lies there.
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

_HALF = re.compile(r"\.[0-9a-f]{32}")
_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def half_in(folder: Path) -> Iterator[Path]:
    """A name for a file that is written, and renamed, while inside; else nothing is left of it.

    Raises `DiskFullError`.
    """
    half = folder / f".{uuid.uuid4().hex}"
    try:
        yield half
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFullError(f"{folder}: {os.strerror(error.errno)}") from error
        raise
    finally:
        half.unlink(missing_ok=True)


def remove_halves(folder: Path) -> None:
    """Remove what was being written in a folder, or below it, by a process that was killed; nobody may write there."""
    for path in folder.rglob(".*"):
        if _HALF.fullmatch(path.name):
            path.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole, so that nobody reads half of it; raises `DiskFullError`."""
    with half_in(path.parent) as half:
        half.write_bytes(content)
        half.replace(path)


def write_json(path: Path, told: Any) -> None:
    """Replace a file as a whole with a JSON value; raises `DiskFullError`."""
    replace_file(path, json.dumps(told).encode())


def read_json(path: Path) -> Any:
    """What a file of a JSON value says; None if there is none. Raises `DecodeError`."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{path} cannot be read: {error}") from error


def write_value(path: Path, codec: Codec[T], value: T) -> None:
    """Replace a file as a whole with a value; raises `DiskFullError`."""
    replace_file(path, codec.encode(value))


def read_value(path: Path, codec: Codec[T]) -> T | None:
    """The value in a file; None if there is none. Raises `DecodeError`."""
    try:
        return codec.decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
