"""Record batches (format v2) as a broker sends them: where each record lies, found in compiled code.

A response to a fetch holds whole batches as they lie in the log, and perhaps the beginning of another one. The batches
of aborted transactions, control batches and records outside the wanted offsets are passed over. What is compressed is
decompressed first; anything else stays where it is, so that a record costs no Python object.

Source: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.errors import CorruptBatchError
from springline.spark_jobs.streaming.kernels.hash_tables import Ints
from springline.spark_jobs.streaming.runtime.step import Headers, Message

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]

_HEADER = 61  # bytes of a batch before its records
_CHECKED = 21  # the first byte that the checksum covers
_MAX_BATCH_BYTES = 1 << 30  # of a batch that was decompressed
_PIECE_BYTES = 1 << 20
_CODECS = {1: "gzip", 3: "lz4", 4: "zstd"}  # by their number in a batch; 2 is snappy, which has no streams
_SNAPPY, _NAMES = 2, {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_XERIAL = b"\x82SNAPPY\0"  # the beginning of snappy as Java's client writes it: blocks behind 16 bytes
_XERIAL_HEADER = 16

# Columns of the table of batches.
_AT, _END, _BASE, _LAST, _ATTRIBUTES, _COUNT, _TIME, _MAX_TIME, _PRODUCER, _CHECKSUM = range(10)
_COLUMNS = 10
# What is wrong with a batch or a record, as kernels return it, less than 0.
_OLD_FORMAT, _BAD_SIZE, _BAD_RECORD = -1, -2, -3


@dataclass(frozen=True)
class Records:
    """Records of a partition in the order of their offsets: where their parts lie in `data`.

    Attributes:
        partition: of the topic; of several topics that are read as one, as `runtime.topic_union` numbers them.
        data: the bytes of all records.
        offsets: of each record, ascending; they may have gaps.
        times: when each was appended or sent, in milliseconds since 1970.
        starts, lengths: of each value; a record without a value has a length below 0.
        key_starts, key_lengths: of each key, the same.
        header_starts: where the headers of each begin, with their number.
    """

    partition: int
    data: Bytes
    offsets: Ints
    times: Ints
    starts: Ints
    lengths: Lengths
    key_starts: Ints
    key_lengths: Lengths
    header_starts: Ints

    def __len__(self) -> int:
        return int(self.offsets.size)

    @property
    def value_bytes(self) -> int:
        """The bytes of all values."""
        return int(np.maximum(self.lengths, 0).sum(dtype=np.int64))

    def message(self, index: int) -> Message:
        """Return a record as a message; raises `CorruptBatchError`."""
        value, key = (
            _slice(self.data, int(starts[index]), int(lengths[index]))
            for starts, lengths in ((self.starts, self.lengths), (self.key_starts, self.key_lengths))
        )
        return Message(
            int(self.offsets[index]), value or b"", float(self.times[index]) / 1000, self._headers(index), key,
            value is None, self.partition,
        )  # fmt: skip

    def messages(self) -> Iterator[Message]:
        """Yield all records as messages."""
        return map(self.message, range(len(self)))

    def _headers(self, index: int) -> Headers:
        position = int(self.header_starts[index])
        try:
            count, position = _read_varint(self.data, position)
            pairs = []
            for _ in range(count):
                size, position = _read_varint(self.data, position)
                name = bytes(self.data[position : position + size]).decode()
                size, position = _read_varint(self.data, position + size)
                pairs.append((name, _slice(self.data, position, size)))
                position += max(size, 0)
        except (IndexError, UnicodeDecodeError) as error:
            raise CorruptBatchError(f"the headers of the record at offset {self.offsets[index]}: {error}") from error
        return Headers(pairs)


class ReadBatches(NamedTuple):
    """The wanted records of some batches, and the offset after the last batch that is there as a whole."""

    records: Records
    next_offset: int


def read_batches(
    content: bytes | bytearray | memoryview, offsets: tuple[int, int], aborted: Mapping[int, list[int]], partition: int
) -> ReadBatches:
    """Return the committed records with offsets [start, end) of the batches in `content`.

    `aborted` has the first offsets of aborted transactions by the id of their producer, as the response lists them.
    Raises `CorruptBatchError` if a checksum is wrong, or the batches are not as the format says.
    """
    start, to = offsets
    data = np.frombuffer(content, np.uint8)
    table = np.empty((data.size // _HEADER + 1, _COLUMNS), np.int64)
    count, position = _find_batches(data, table)
    if position < 0:
        at = table[count, _AT]
        reason = (
            f"a message format older than v2 ({data[at + 16]}), which Kafka stopped writing with version 4: copy the "
            "topic with a current client" if position == _OLD_FORMAT else "a batch of an impossible size"
        )  # fmt: skip
        raise CorruptBatchError(f"after {count} batches, at byte {at} of a fetch: {reason}")
    table = table[:count]
    next_offset = int(table[-1, _LAST]) + 1 if count else start
    _check(data, table)
    table = table[_committed(data, table, aborted) & (table[:, _LAST] >= start) & (table[:, _BASE] < to)]
    data = _decompress(data, table)
    records = _locate(data, table, start, to)
    return ReadBatches(Records(partition, data, *records), next_offset)


def _check(data: Bytes, table: Ints) -> None:
    view = memoryview(data)
    for at, end, checksum in table[:, [_AT, _END, _CHECKSUM]].tolist():
        if crc32c.crc32c(view[at + _CHECKED : end]) != checksum:
            raise CorruptBatchError(
                f"the batch at offset {int.from_bytes(view[at : at + 8])} has a wrong checksum: its bytes were damaged "
                "on the way, or on the broker's disk"
            )


def _committed(data: Bytes, table: Ints, aborted: Mapping[int, list[int]]) -> npt.NDArray[np.bool_]:
    """Return a flag per batch: whether it holds records, of no transaction or one that was not aborted."""
    attributes = table[:, _ATTRIBUTES]
    committed: npt.NDArray[np.bool_] = attributes & 0x20 == 0
    if not aborted:
        return committed
    left = {producer: sorted(firsts) for producer, firsts in aborted.items()}
    open_aborts: set[int] = set()
    for index in np.flatnonzero(attributes & 0x10).tolist():  # of transactions
        producer = int(table[index, _PRODUCER])
        firsts = left.get(producer, [])
        while firsts and firsts[0] <= table[index, _LAST]:
            firsts.pop(0)
            open_aborts.add(producer)
        if committed[index]:
            committed[index] = producer not in open_aborts
        elif _is_abort(data, int(table[index, _AT]), int(table[index, _END])):
            open_aborts.discard(producer)
    return committed


def _is_abort(data: Bytes, at: int, end: int) -> bool:
    """Return whether a control batch ends an aborted transaction: the type in the key of its only record is 0."""
    position = at + _HEADER
    _, position = _read_varint(data, position)  # its length
    _, position = _read_varint(data, position + 1)  # its time, after the attributes
    _, position = _read_varint(data, position)  # its offset
    size, position = _read_varint(data, position)
    if size < 4 or position + size > end:
        raise CorruptBatchError(f"the control batch at byte {at} of a fetch has no type")
    return int(data[position + 2]) == 0 and int(data[position + 3]) == 0


def _decompress(data: Bytes, table: Ints) -> Bytes:
    """Return the data with compressed batches as they were before; then `table` has the places of records in it."""
    table[:, _AT] += _HEADER
    if not (table[:, _ATTRIBUTES] & 7).any():
        return data
    pieces, position = [], 0
    for row in table:
        piece: Bytes | memoryview = memoryview(data[row[_AT] : row[_END]])
        if codec := int(row[_ATTRIBUTES]) & 7:
            try:
                piece = memoryview(_decompressed(piece, codec))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise CorruptBatchError(
                    f"the batch at offset {row[_BASE]} is compressed by {_NAMES.get(codec, f'codec {codec}')} and "
                    f"cannot be decompressed: {error}"
                ) from error
        pieces.append(np.frombuffer(piece, np.uint8))
        row[_AT], row[_END] = position, position + len(piece)
        position += len(piece)
    return np.concatenate(pieces)


def _decompressed(piece: memoryview, codec: int) -> bytes | pa.Buffer:
    if codec == _SNAPPY:
        return b"".join(_snappy_blocks(piece))
    if codec not in _CODECS:
        raise ValueError("it is unknown here")
    parts, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(piece)), _CODECS[codec]) as stream:
        while part := stream.read(_PIECE_BYTES):
            parts.append(part)
            size += len(part)
            if size > _MAX_BATCH_BYTES:
                raise ValueError(f"more than {_MAX_BATCH_BYTES:,} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_blocks(piece: memoryview) -> Iterator[bytes]:
    if piece[: len(_XERIAL)] != _XERIAL:
        yield _snappy(piece)
        return
    position = _XERIAL_HEADER
    while position < len(piece):
        size = int.from_bytes(piece[position : position + 4])
        yield _snappy(piece[position + 4 : position + 4 + size])
        position += 4 + size


def _snappy(block: memoryview) -> bytes:
    """Decompress a block, which begins with its size before."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > _MAX_BATCH_BYTES:
        raise ValueError(f"more than {_MAX_BATCH_BYTES:,} bytes")
    return bytes(pa.Codec("snappy").decompress(pa.py_buffer(block), decompressed_size=size, asbytes=True))


def _locate(data: Bytes, table: Ints, start: int, to: int) -> tuple[Ints, Ints, Ints, Lengths, Ints, Lengths, Ints]:
    """Return the columns of `Records` of the batches."""
    most = int(np.minimum(table[:, _COUNT], table[:, _END] - table[:, _AT]).sum())  # a record takes a byte or more
    numbers = np.empty((5, most), np.int64)
    lengths = np.empty((2, most), np.int32)
    count = int(_find_records(data, table, start, to, numbers, lengths))
    if count < 0:
        batch = -count - 1
        raise CorruptBatchError(f"the batch at offset {table[batch, _BASE]} has records that do not fit into it")
    offsets, times, starts, key_starts, header_starts = (column[:count] for column in numbers)
    return offsets, times, starts, lengths[0, :count], key_starts, lengths[1, :count], header_starts


def _slice(data: Bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(data[start : start + length])


def _read_varint(data: Bytes, position: int) -> tuple[int, int]:
    """Return a number in zigzag encoding, and the position after it."""
    number = shift = 0
    while True:
        byte = int(data[position])
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), position


@njit(cache=True, nogil=True)
def _number(data, at, size):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for i in range(size):
        value = (value << 8) | np.int64(data[at + i])
    return value


@njit(cache=True, nogil=True)
def _signed(data, at):  # type: ignore[no-untyped-def]
    value = _number(data, at, 4)
    return value - (np.int64(1) << 32) if value >= np.int64(1) << 31 else value


@njit(cache=True, nogil=True)
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """Return a number in zigzag encoding and the position after it; a position after `end` if it does not fit."""
    value, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 127) << shift
        if byte < 128:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), end + 1


@njit(cache=True, nogil=True)
def _find_batches(data, table):  # type: ignore[no-untyped-def]
    """Fill a row of the table for each whole batch; returns their number, and the position after them or an error."""
    at, count = np.int64(0), 0
    while at + _HEADER <= data.size:
        size = _signed(data, at + 8)
        table[count, _AT] = at
        if data[at + 16] != 2:
            return count, np.int64(_OLD_FORMAT)
        if size < _HEADER - 12:
            return count, np.int64(_BAD_SIZE)
        end = at + 12 + size
        if end > data.size:
            break  # cut by the limit of the fetch
        table[count, _END] = end
        table[count, _BASE] = _number(data, at, 8)
        table[count, _CHECKSUM] = _number(data, at + 17, 4)
        table[count, _ATTRIBUTES] = _number(data, at + 21, 2)
        table[count, _LAST] = table[count, _BASE] + _number(data, at + 23, 4)
        table[count, _TIME] = _number(data, at + 27, 8)
        table[count, _MAX_TIME] = _number(data, at + 35, 8)
        table[count, _PRODUCER] = _number(data, at + 43, 8)
        table[count, _COUNT] = max(_signed(data, at + 57), 0)
        count += 1
        at = end
    return count, at


@njit(cache=True, nogil=True)
def _find_records(data, table, start, to, numbers, lengths):  # type: ignore[no-untyped-def]
    """Fill the columns with the records at the offsets [start, to); returns their number, or the bad batch as < 0."""
    filled = 0
    for batch in range(table.shape[0]):
        at, end = table[batch, _AT], table[batch, _END]
        by_broker = table[batch, _ATTRIBUTES] & 8
        for _ in range(table[batch, _COUNT]):
            size, at = _varint(data, at, end)
            if at > end or size < 0 or at + size > end:
                return -batch - 1
            following = at + size
            time, here = _varint(data, at + 1, following)
            delta, here = _varint(data, here, following)
            key, here = _varint(data, here, following)
            if here > following or key > following - here:
                return -batch - 1
            key_start = here
            here += max(key, np.int64(0))
            value, here = _varint(data, here, following)
            if here > following or value > following - here:
                return -batch - 1
            offset = table[batch, _BASE] + delta
            if start <= offset < to:
                numbers[0, filled] = offset
                numbers[1, filled] = table[batch, _MAX_TIME] if by_broker else table[batch, _TIME] + time
                numbers[2, filled], lengths[0, filled] = here, value
                numbers[3, filled], lengths[1, filled] = key_start, key
                numbers[4, filled] = here + max(value, np.int64(0))
                filled += 1
            at = following
    return filled
