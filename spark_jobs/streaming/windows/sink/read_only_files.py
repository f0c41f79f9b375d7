"""A read-only file system for DuckDB with a few named files.

With DuckDB's own setting (`allowed_paths`), SQL may write every file that it may read. This file system has no
operation that writes.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem

PROTOCOL = "results"


class ReadOnlyFiles(AbstractFileSystem):  # type: ignore[misc]
    """Files of this machine under the names `results://NAME`; no others exist."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__()
        self._files = dict(files)

    def open(self, path: str, mode: str = "rb", **_: Any) -> _ReadOnlyFile:
        """Open a file for reading; raises `PermissionError` for any other mode."""
        if mode != "rb":
            raise PermissionError(f"{path}: stored results are read-only")
        return _ReadOnlyFile(self._path_of(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the size of a file."""
        return {"name": path, "size": self._path_of(path).stat().st_size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return the modification time of a file."""
        return datetime.fromtimestamp(self._path_of(path).stat().st_mtime, UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the file of this name; names are not patterns."""
        return [path] if self._strip_protocol(path) in self._files else []

    def _path_of(self, path: str) -> Path:
        name = self._strip_protocol(path)
        if name not in self._files:
            raise FileNotFoundError(path)
        return self._files[name]


class _ReadOnlyFile(io.RawIOBase):
    """A file that several threads read concurrently, each at its own position: DuckDB seeks, then reads."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._descriptor).st_size
        self._position = threading.local()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set this thread's position."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._position.offset = begin + offset
        return self.tell()

    def tell(self) -> int:
        """Return this thread's position."""
        return getattr(self._position, "offset", 0)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes from this thread's position, fewer only at the end of the file."""
        content = os.pread(self._descriptor, self._size if size < 0 else size, self.tell())
        self._position.offset = self.tell() + len(content)
        return content

    def close(self) -> None:
        """Close the file descriptor."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()
