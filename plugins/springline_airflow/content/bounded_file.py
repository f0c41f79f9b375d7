"""One file of a store that can be read at any position, within a budget of bytes and time."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from springline.airflow.content.errors import UnreadableContentError
from springline.persistence.backends.spec import Backend
from springline.persistence.text.formatting import format_bytes, format_seconds

_AHEAD = 64 << 10  # bytes of one read at least: parsers ask for a few bytes at a time


@dataclass
class Budget:
    """What one look may read: `bytes` in total, until `seconds` have passed since it was made."""

    bytes: int = 32 << 20
    seconds: float = 10.0
    clock: Callable[[], float] = time.monotonic
    _started_at: float = field(init=False)
    _used: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._started_at = self.clock()

    def spend(self, count: int, place: str) -> None:
        """Count `count` bytes of `place`; raises `UnreadableContentError` if the budget does not cover them."""
        self._used += count
        if self._used > self.bytes:
            raise UnreadableContentError(
                f"{place}: its first rows take more than {format_bytes(self.bytes)} to read; read it in a task"
            )
        if self.clock() - self._started_at > self.seconds:
            raise UnreadableContentError(
                f"{place}: the store did not deliver the first rows within {format_seconds(self.seconds)}; "
                "try again, or read it in a task"
            )


class BoundedFile(io.RawIOBase):
    """The file `name` at `location`, of `size` bytes, as a seekable file object; each read counts in `budget`.

    From a store that cannot seek, the file is kept from its beginning to the last byte that was needed.
    """

    def __init__(self, backend: Backend, location: str, name: str, size: int, budget: Budget, place: str) -> None:
        super().__init__()
        self._backend = backend
        self._location = location
        self._name = name
        self._size = size
        self._budget = budget
        self._place = place
        self._position = 0
        self._start, self._content = 0, b""  # the bytes that were read last

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        available = max(0, self._size - self._position)
        count = available if size is None or size < 0 else min(size, available)
        content = self._range(self._position, count)
        self._position += len(content)
        return content

    def readall(self) -> bytes:
        return self.read()

    def _range(self, start: int, count: int) -> bytes:
        if not self._start <= start <= start + count <= self._start + len(self._content):
            end = min(start + max(count, _AHEAD), self._size) if count else start
            self._start = start if self._backend.can_seek else 0
            self._budget.spend(end - self._start, self._place)
            self._content = self._backend.read_range(self._location, self._name, self._start, end - self._start)
        return self._content[start - self._start :][:count]
