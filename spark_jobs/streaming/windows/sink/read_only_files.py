"""A file system for DuckDB that has a few named files, and opens them for reading only.

DuckDB's own setting (`allowed_paths`) lets SQL write whatever it lets it read. Here there is nothing that could write.
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

PROTOCOL = "kept"


class ReadOnlyFiles(AbstractFileSystem):  # type: ignore[misc]
    """Files of this machine by names of their own, `kept://NAME`; all else is not there."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__()
        self._files = dict(files)

    def open(self, path: str, mode: str = "rb", **_: Any) -> _File:
        """A file to read from; raises `PermissionError` for whatever else one might want of it."""
        if mode != "rb":
            raise PermissionError(f"{path}: kept results can be read and not be changed")
        return _File(self._place(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """How large a file is."""
        return {"name": path, "size": self._place(path).stat().st_size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """When a file was written."""
        return datetime.fromtimestamp(self._place(path).stat().st_mtime, UTC)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The file of this name: names are no patterns."""
        return [path] if self._strip_protocol(path) in self._files else []

    def _place(self, path: str) -> Path:
        name = self._strip_protocol(path)
        if name not in self._files:
            raise FileNotFoundError(path)
        return self._files[name]


class _File(io.RawIOBase):
    """A file that threads read at once, each at a place of its own: DuckDB seeks, then reads."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._size = os.fstat(self._descriptor).st_size
        self._places = threading.local()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, as this thread sees it."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._places.at = begin + offset
        return self.tell()

    def tell(self) -> int:
        """The place of this thread."""
        return getattr(self._places, "at", 0)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes from the place of this thread on, fewer only at the end."""
        found = os.pread(self._descriptor, self._size if size < 0 else size, self.tell())
        self._places.at = self.tell() + len(found)
        return found

    def close(self) -> None:
        """Give the descriptor back."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()
