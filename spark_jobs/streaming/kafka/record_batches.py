"""Record batches (format v2) as a broker sends them: where each record lies, found in compiled code.

A response to a fetch holds whole batches as they lie in the log, and perhaps the beginning of another one. The batches
of aborted transactions, control batches and records outside the wanted offsets are passed over. What is compressed is
decompressed first; anything else stays where it is, so that a record costs no Python object.

Source: https://kafka.apache.org/documentation/#recordbatch
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from springline.spark_jobs.streaming.errors import CorruptBatchError, UnsupportedClusterError
from springline.spark_jobs.streaming.runtime.message import Bytes, Ints, Lengths, MessageBatch, read_varint

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
_FORMAT = 2
_OTHER_FORMAT, _BAD_SIZE = -1, -2  # what is wrong with a batch, as kernels return it


class ReadBatches(NamedTuple):
    """The records of some batches, and the offset after the last batch that is there as a whole."""

    messages: MessageBatch
    next_offset: int


def read_batches(
    content: bytes | bytearray | memoryview, start: int, aborted: Mapping[int, Sequence[int]], partition: int
) -> ReadBatches:
    """Return the committed records from an offset on of the batches in `content`, which say `partition` of it.

    `aborted` has the first offsets of aborted transactions by the id of their producer, as the response lists them.
    Raises `CorruptBatchError` if a checksum is wrong, or the batches are not as the format says, and
    `UnsupportedClusterError` if they are of an older format.
    """
    data = np.frombuffer(content, np.uint8)
    table = np.empty((data.size // _HEADER + 1, _COLUMNS), np.int64)
    count, position = _find_batches(data, table)
    if position == _OTHER_FORMAT and data[table[count, _AT] + 16] > _FORMAT:
        position = np.int64(_BAD_SIZE)
    if position == _BAD_SIZE:
        raise CorruptBatchError(f"after {count} batches, at byte {table[count, _AT]} of a fetch: this is no batch")
    if position == _OTHER_FORMAT and not count:
        raise UnsupportedClusterError(f"it has messages of the format v{data[16]}, older than v{_FORMAT}")
    table = table[:count]
    next_offset = max(int(table[-1, _LAST]) + 1, start) if count else start
    _check(data, table)
    table = table[_committed(data, table, aborted) & (table[:, _LAST] >= start)]
    data = _decompress(data, table)
    columns = _locate(data, table, start)
    return ReadBatches(MessageBatch(partition, data, *columns), next_offset)


def _check(data: Bytes, table: Ints) -> None:
    view = data.data
    for at, end, checksum in table[:, [_AT, _END, _CHECKSUM]].tolist():
        if crc32c.crc32c(view[at + _CHECKED : end]) != checksum:
            raise CorruptBatchError(
                f"the batch at offset {int.from_bytes(view[at : at + 8])} has a wrong checksum: its bytes were damaged "
                "on the way, or on the broker's disk"
            )


def _committed(data: Bytes, table: Ints, aborted: Mapping[int, Sequence[int]]) -> npt.NDArray[np.bool_]:
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
    _, position = read_varint(data, position)  # its length
    _, position = read_varint(data, position + 1)  # its time, after the attributes
    _, position = read_varint(data, position)  # its offset
    size, position = read_varint(data, position)
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
        piece = data.data[row[_AT] : row[_END]]
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


def _locate(data: Bytes, table: Ints, start: int) -> tuple[Ints, Ints, Ints, Lengths, Ints, Lengths, Ints]:
    """Return the arrays of a `MessageBatch` with the records of the batches."""
    most = int(np.minimum(table[:, _COUNT], table[:, _END] - table[:, _AT]).sum())  # a record takes a byte or more
    numbers = np.empty((5, most), np.int64)
    lengths = np.empty((2, most), np.int32)
    count = int(_find_records(data, table, start, numbers, lengths))
    if count < 0:
        batch = -count - 1
        raise CorruptBatchError(f"the batch at offset {table[batch, _BASE]} has records that do not fit into it")
    offsets, times, starts, key_starts, header_starts = (column[:count] for column in numbers)
    return offsets, times, starts, lengths[0, :count], key_starts, lengths[1, :count], header_starts


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
        if data[at + 16] != _FORMAT:
            return count, np.int64(_OTHER_FORMAT)
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
def _find_records(data, table, start, numbers, lengths):  # type: ignore[no-untyped-def]
    """Fill the columns with the records from the offset `start` on; returns their number, or the bad batch as < 0."""
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
            if offset >= start:
                numbers[0, filled] = offset
                numbers[1, filled] = table[batch, _MAX_TIME] if by_broker else table[batch, _TIME] + time
                numbers[2, filled], lengths[0, filled] = here, value
                numbers[3, filled], lengths[1, filled] = key_start, key
                numbers[4, filled] = here + max(value, np.int64(0))
                filled += 1
            at = following
    return filled
