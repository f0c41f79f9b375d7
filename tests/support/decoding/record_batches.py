"""Record batches as a broker sends them, written after Kafka's documentation, with each compression."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import crc32c
import pyarrow as pa

Codec = Literal["none", "gzip", "snappy", "xerial", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "xerial", "lz4", "zstd")
_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "xerial": 2, "lz4": 3, "zstd": 4}
_TRANSACTIONAL, _CONTROL, _LOG_APPEND = 0x10, 0x20, 0x08
_BLOCK = 700  # bytes of a block of Java's snappy


@dataclass(frozen=True)
class Written:
    """A record: its offset, value and key, its time in milliseconds, its headers."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    time: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def varint(number: int) -> bytes:
    """A number in zigzag encoding."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    left &= (1 << 64) - 1
    while left >= 128:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def record(written: Written, base: int, first_time: int) -> bytes:
    """A record of a batch."""
    parts = [b"\0", varint(written.time - first_time), varint(written.offset - base)]
    parts += [_sized(written.key), _sized(written.value), varint(len(written.headers))]
    for name, value in written.headers:
        parts += [varint(len(name.encode())), name.encode(), _sized(value)]
    body = b"".join(parts)
    return varint(len(body)) + body


def batch(
    records: Sequence[Written], codec: Codec = "none", *, base: int | None = None, last: int | None = None,
    producer: int = -1, transactional: bool = False, control: bool = False, append_time: int | None = None,
) -> bytes:  # fmt: skip
    """Records as a batch of format v2; with an `append_time`, the broker has set their times."""
    base = records[0].offset if base is None else base
    last = records[-1].offset if last is None else last
    first_time = records[0].time if records else -1
    body = _compressed(b"".join(record(each, base, first_time) for each in records), codec)
    attributes = _NUMBERS[codec] | transactional * _TRANSACTIONAL | control * _CONTROL
    newest = max((each.time for each in records), default=-1)
    if append_time is not None:
        attributes, newest = attributes | _LOG_APPEND, append_time
    checked = (
        struct.pack(">hiqqqhii", attributes, last - base, first_time, newest, producer, 0, -1, len(records)) + body
    )
    return struct.pack(">qiibI", base, len(checked) + 9, 0, 2, crc32c.crc32c(checked)) + checked


def end_of_transaction(offset: int, producer: int, *, committed: bool) -> bytes:
    """The control batch that ends a transaction."""
    key = struct.pack(">hh", 0, committed)
    return batch([Written(offset, b"\0\0\0\0\0\0", key)], producer=producer, transactional=True, control=True)


def _sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def _compressed(body: bytes, codec: Codec) -> bytes:
    if codec == "none":
        return body
    if codec == "snappy":
        return pa.compress(body, codec="snappy", asbytes=True)
    if codec == "xerial":
        blocks = [
            pa.compress(body[at : at + _BLOCK], codec="snappy", asbytes=True) for at in range(0, len(body), _BLOCK)
        ]
        return (
            b"\x82SNAPPY\0"
            + struct.pack(">ii", 1, 1)
            + b"".join(struct.pack(">i", len(each)) + each for each in blocks)
        )
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()
