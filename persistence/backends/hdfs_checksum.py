"""The checksum that HDFS tells of a whole file, worked out from the bytes while they are sent.

HDFS keeps a CRC32C of every 512 bytes, verified by the DataNodes as the bytes come in; the checksum of
a file is the MD5 of the MD5s of its blocks' CRCs (org.apache.hadoop.fs.MD5MD5CRC32FileChecksum).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from hashlib import md5
from typing import Any

from crc32c import crc32c

_PIECE = 512  # dfs.bytes-per-checksum, unless somebody changed it
_LEAST = 32  # HDFS digests its buffer with the zeros after its end; it begins so large and doubles


class FileSum:
    """Grows with the bytes of a file whose blocks are of `block` bytes, a multiple of 512."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._left = block
        self._rest = b""
        self._open = md5(usedforsecurity=False)
        self._blocks: list[bytes] = []

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        data = memoryview(self._rest + chunk if self._rest else chunk)
        at = 0
        while (size := min(self._left, len(data) - at)) >= _PIECE:
            size -= size % _PIECE
            self._take(data[at : at + size])
            at += size
            self._left -= size
            if not self._left:
                self._end_block()
        self._rest = bytes(data[at:])

    def is_that_of(self, told: Mapping[str, Any]) -> bool:
        """Whether HDFS tells the same of a file; also no if it tells a checksum of another kind. To be asked once."""
        if self._rest:
            self._take(memoryview(self._rest))
        if self._rest or self._left < self._block:
            self._end_block()
        size = _LEAST
        while size < 16 * len(self._blocks):
            size *= 2
        whole = md5(b"".join(self._blocks).ljust(size, b"\0"), usedforsecurity=False).digest()
        a_block = self._block // _PIECE if len(self._blocks) > 1 else 0
        stored = bytes.fromhex(told["bytes"])[:28]
        return (
            told["algorithm"] == f"MD5-of-{a_block}MD5-of-{_PIECE}CRC32C"
            and stored == _PIECE.to_bytes(4, "big") + a_block.to_bytes(8, "big") + whole
        )

    def _take(self, data: memoryview) -> None:
        sums = array("I", [crc32c(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)])
        if sys.byteorder == "little":
            sums.byteswap()
        self._open.update(sums)

    def _end_block(self) -> None:
        self._blocks.append(self._open.digest())
        self._open = md5(usedforsecurity=False)
        self._left = self._block
