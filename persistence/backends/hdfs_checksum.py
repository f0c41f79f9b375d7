"""HDFS's checksum of a whole file, computed from the bytes while they are sent.

HDFS keeps a CRC32C of every 512 bytes, verified by the DataNodes as they receive the bytes; the checksum of
a file is the MD5 of the MD5s of its blocks' CRCs (org.apache.hadoop.fs.MD5MD5CRC32FileChecksum).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from hashlib import md5
from typing import Any

from crc32c import crc32c

_CHUNK_BYTES = 512  # dfs.bytes-per-checksum, unless configured otherwise
_MIN_BUFFER_BYTES = 32  # HDFS digests its buffer including the trailing zeros; it starts at this size and doubles


class HdfsChecksum:
    """Incremental checksum of a file with blocks of `block` bytes, a multiple of 512."""

    def __init__(self, block: int) -> None:
        self._block = block
        self._block_remaining = block
        self._unhashed = b""
        self._block_hasher = md5(usedforsecurity=False)
        self._block_digests: list[bytes] = []

    def update(self, chunk: bytes) -> None:
        """Add the next bytes."""
        data = memoryview(self._unhashed + chunk if self._unhashed else chunk)
        offset = 0
        while (size := min(self._block_remaining, len(data) - offset)) >= _CHUNK_BYTES:
            size -= size % _CHUNK_BYTES
            self._add_chunks(data[offset : offset + size])
            offset += size
            self._block_remaining -= size
            if not self._block_remaining:
                self._end_block()
        self._unhashed = bytes(data[offset:])

    def matches(self, file_checksum: Mapping[str, Any]) -> bool:
        """Whether HDFS reports the same checksum; False if it reports none of this kind. May be called only once."""
        if "algorithm" not in file_checksum:
            return False
        if self._unhashed:
            self._add_chunks(memoryview(self._unhashed))
        if self._unhashed or self._block_remaining < self._block:
            self._end_block()
        size = _MIN_BUFFER_BYTES
        while size < 16 * len(self._block_digests):
            size *= 2
        digest = md5(b"".join(self._block_digests).ljust(size, b"\0"), usedforsecurity=False).digest()
        chunks_per_block = self._block // _CHUNK_BYTES if len(self._block_digests) > 1 else 0
        stored = bytes.fromhex(file_checksum["bytes"])[:28]
        return (
            file_checksum["algorithm"] == f"MD5-of-{chunks_per_block}MD5-of-{_CHUNK_BYTES}CRC32C"
            and stored == _CHUNK_BYTES.to_bytes(4, "big") + chunks_per_block.to_bytes(8, "big") + digest
        )

    def _add_chunks(self, data: memoryview) -> None:
        sums = array(
            "I", [crc32c(data[offset : offset + _CHUNK_BYTES]) for offset in range(0, len(data), _CHUNK_BYTES)]
        )
        if sys.byteorder == "little":
            sums.byteswap()
        self._block_hasher.update(sums)

    def _end_block(self) -> None:
        self._block_digests.append(self._block_hasher.digest())
        self._block_hasher = md5(usedforsecurity=False)
        self._block_remaining = self._block
