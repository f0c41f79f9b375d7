"""Messages of a topic: one as an object, many as arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

_BATCH_BYTES = 4 << 20  # of single messages in one batch


class Headers(dict[str, bytes]):
    """Headers by name, of equal names the last; `pairs` are all in their order, of which some have no value."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[str, bytes | None]]) -> None:
        self.pairs = tuple(pairs)
        super().__init__((name, value) for name, value in self.pairs if value is not None)


def header_pairs(headers: Mapping[str, bytes]) -> tuple[tuple[str, bytes | None], ...]:
    """Return all headers in their order."""
    return headers.pairs if isinstance(headers, Headers) else tuple(headers.items())


NO_HEADERS: Headers = Headers(())


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a unit's log: a buffer of rows, in the format of its topic.

    Attributes:
        offset: its position in the partition; offsets ascend and may have gaps.
        value: its bytes.
        timestamp: when it was appended, in seconds since 1970.
        headers: bytes by name.
        key: its key, if it has one.
        is_null: whether it has no value, which deletes its key in a compacted topic; `value` is empty then.
        partition: of the topic; of several topics that are read as one, as `runtime.topic_union` numbers them.

    Example:
        >>> bytes(Message(7, b"3.5").value)
        b'3.5'
    """

    offset: int
    value: bytes | memoryview
    timestamp: float = 0.0
    headers: Mapping[str, bytes] = NO_HEADERS
    key: bytes | None = None
    is_null: bool = False
    partition: int = 0


@dataclass(frozen=True, eq=False)
class MessageBatch(Sequence[Message]):
    """Messages of one partition as arrays, so that a message takes no object; each is created when it is asked for.

    Attributes:
        partition: of all messages, as `Message` has it.
        data: the bytes that the parts of messages lie in.
        offsets: of each message, ascending.
        timestamps: of each, in milliseconds since 1970.
        starts: of the values in `data`.
        lengths: of the values, in bytes; below 0: there is no value.
        key_starts: of the keys in `data`.
        key_lengths: of the keys, likewise.
        header_starts: where the headers of each begin: their number, then names and values, as in Kafka's records.

    Example:
        >>> batch = MessageBatch.of([Message(7, b"3.5"), Message(9, b"4", key=b"k")])
        >>> batch.offsets.tolist(), batch.value_bytes, batch[1].key
        ([7, 9], 4, b'k')
    """

    partition: int
    data: Bytes
    offsets: Ints
    timestamps: Ints
    starts: Ints
    lengths: Lengths
    key_starts: Ints
    key_lengths: Lengths
    header_starts: Ints

    @staticmethod
    def of(messages: Sequence[Message]) -> MessageBatch:
        """Return single messages of a partition as a batch."""
        values = [bytes(message.value) for message in messages]
        keys = [message.key or b"" for message in messages]
        headers = [_encode_headers(header_pairs(message.headers)) for message in messages]
        sizes = np.array([list(map(len, parts)) for parts in (values, keys, headers)], np.int64).reshape(3, -1)
        ends = np.cumsum(sizes.T).reshape(-1, 3).T
        lengths = sizes.astype(np.int32)
        lengths[0, [index for index, message in enumerate(messages) if message.is_null]] = -1
        lengths[1, [index for index, message in enumerate(messages) if message.key is None]] = -1
        data = b"".join(chain.from_iterable(zip(values, keys, headers, strict=True)))
        starts = ends - sizes
        return MessageBatch(
            messages[0].partition if messages else 0,
            np.frombuffer(bytearray(data or b"\0"), np.uint8),
            np.array([message.offset for message in messages], np.int64),
            np.array([round(message.timestamp * 1000) for message in messages], np.int64),
            starts[0], lengths[0], starts[1], lengths[1], starts[2],
        )  # fmt: skip

    def __len__(self) -> int:
        return int(self.offsets.size)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice | Ints) -> MessageBatch: ...
    def __getitem__(self, index: int | slice | Ints) -> Message | MessageBatch:
        """Return a message, or some as a batch; without headers if they are not as Kafka writes them."""
        if isinstance(index, slice | np.ndarray):
            arrays = (
                self.offsets, self.timestamps, self.starts, self.lengths, self.key_starts, self.key_lengths,
                self.header_starts,
            )  # fmt: skip
            return MessageBatch(self.partition, self.data, *(array[index] for array in arrays))  # type: ignore[arg-type]
        value = self._part(self.starts[index], self.lengths[index])
        return Message(
            int(self.offsets[index]), value or b"", float(self.timestamps[index]) / 1000, self._headers(index),
            self._part(self.key_starts[index], self.key_lengths[index]), value is None, self.partition,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Message]:
        return map(self.__getitem__, range(len(self)))

    def filled(self) -> MessageBatch:
        """Return the messages that have a value."""
        has_value = self.lengths >= 0
        return self if has_value.all() else self[np.flatnonzero(has_value)]

    @property
    def value_bytes(self) -> int:
        """The bytes of all values."""
        return int(np.maximum(self.lengths, 0).sum(dtype=np.int64))

    def _part(self, start: np.int64, length: np.int32) -> bytes | None:
        return None if length < 0 else self.data[start : start + length].tobytes()

    def _headers(self, index: int) -> Headers:
        position = int(self.header_starts[index])
        if self.data[position] == 0:
            return NO_HEADERS
        pairs = []
        try:
            count, position = read_varint(self.data, position)
            for _ in range(count):
                size, position = read_varint(self.data, position)
                name = self.data[position : position + max(size, 0)].tobytes().decode(errors="backslashreplace")
                size, position = read_varint(self.data, position + max(size, 0))
                pairs.append((name, None if size < 0 else self.data[position : position + size].tobytes()))
                position += max(size, 0)
        except IndexError:  # its producer has written other headers than it says
            return NO_HEADERS
        return Headers(pairs)


class MessageRun(Sequence[Message]):
    """Batches one after another, as one sequence of messages.

    Example:
        >>> run = MessageRun([MessageBatch.of([Message(7, b"a")]), MessageBatch.of([Message(2, b"b", partition=1)])])
        >>> run[1].value, run.partitions()
        (b'b', [(0, 0), (1, 1)])
    """

    def __init__(self, batches: Sequence[MessageBatch]) -> None:
        self.batches = batches
        self._firsts = np.array([0, *accumulate(map(len, batches))])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, index: int) -> Message:  # type: ignore[override]
        which = int(np.searchsorted(self._firsts, index, side="right")) - 1
        return self.batches[which][index - int(self._firsts[which])]

    def partitions(self) -> list[tuple[int, int]]:
        """Return the partitions in their order, each with the index of its first message."""
        pairs: list[tuple[int, int]] = []
        for batch, first in zip(self.batches, self._firsts.tolist(), strict=False):
            if len(batch) and (not pairs or pairs[-1][0] != batch.partition):
                pairs.append((batch.partition, first))
        return pairs


class BatchSource(Iterable[Message], ABC):
    """Messages that are read in batches."""

    @abstractmethod
    def batches(self) -> Iterator[MessageBatch]:
        """Yield the messages, some at a time, none of the batches empty."""

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.batches())


class FetchedMessages(BatchSource):
    """Messages that are fetched while they are read, once."""

    def __init__(self, batches: Iterator[MessageBatch]) -> None:
        self._batches = batches

    def batches(self) -> Iterator[MessageBatch]:
        return self._batches


def batches_of(messages: Iterable[Message]) -> Iterator[MessageBatch]:
    """Yield messages as batches, each of one partition: those that they are read in, or new ones of some megabytes."""
    if isinstance(messages, BatchSource):
        yield from messages.batches()
        return
    own: list[Message] = []
    size = 0
    for message in messages:
        if own and (size >= _BATCH_BYTES or message.partition != own[0].partition):
            yield MessageBatch.of(own)
            own, size = [], 0
        own.append(message)
        size += len(message.value)
    if own:
        yield MessageBatch.of(own)


def read_varint(data: Bytes, position: int) -> tuple[int, int]:
    """Return a number in Kafka's encoding (zigzag), and the position after it; raises `IndexError` where data ends."""
    number = shift = 0
    while True:
        byte = int(data[position])
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), position


def _encode_headers(pairs: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [_encode_varint(len(pairs))]
    for name, value in pairs:
        text = name.encode()
        parts += [_encode_varint(len(text)), text, _encode_varint(-1 if value is None else len(value)), value or b""]
    return b"".join(parts)


def _encode_varint(number: int) -> bytes:
    left, encoded = (number << 1) ^ (number >> 63), bytearray()
    while left >= 128:
        encoded.append(left & 127 | 128)
        left >>= 7
    return bytes([*encoded, left])
