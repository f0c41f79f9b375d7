"""Topics as lists in memory, in Kafka's place: offsets with gaps, fencing, and a process that dies at a chosen call."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from springline.spark_jobs.streaming.errors import FencedError, MessagesLostError
from springline.spark_jobs.streaming.kafka.topic_union import place_of, together, topics_of
from springline.spark_jobs.streaming.runtime.message_log import Letter, Order, Place
from springline.spark_jobs.streaming.runtime.rounds import Extent
from springline.spark_jobs.streaming.runtime.stamps import HEADER, Stamp
from springline.spark_jobs.streaming.runtime.step import Message


class KilledError(Exception):
    """The process that spoke to a `MemoryLog` died at this call, since the test wanted it to: `MemoryLog.dies_in`.

    Example:
        >>> from springline.testing import KilledError, MemoryLog
        >>> log = MemoryLog({"lines": 1})
        >>> log.dies_in = 0
        >>> try:
        ...     list(log.fetch("lines", 0, 0, 1))
        ... except KilledError:
        ...     "dead"
        'dead'
    """


class MemoryLog:
    """Topics as lists of messages; every second message leaves a gap behind, as a commit marker would.

    It stands for Kafka in `StageRun` and `JobRun`, and may be given to a `Tracker` as its `log`. What is read may be
    the sum of several topics, `orders+items`, as on Kafka.

    Args:
        topics: how many partitions each topic has, by name.

    Attributes:
        topics: the messages that are there, by topic and partition: `log.topics["lines"][0]`.
        lows: the first offset that each partition still has, by (topic, partition).
        dies_in: after so many more calls each further one raises `KilledError`; None: none does.

    Raises:
        MessagesLostError: from `fetch` and `follow`, where messages that are asked for were deleted.
        KilledError: from any call, as `dies_in` says.

    Example:
        >>> from springline.testing import MemoryLog
        >>> log = MemoryLog({"lines": 2})
        >>> log.put("lines", 0, b"to be")
        >>> log.put("lines", 0, b"or not to be")
        >>> [(message.offset, message.value) for message in log.fetch("lines", 0, 0, 10)]
        [(0, b'to be'), (2, b'or not to be')]
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.topics: dict[str, list[list[Message]]] = {
            name: [[] for _ in range(units)] for name, units in topics.items()
        }
        self.lows: dict[tuple[str, int], int] = defaultdict(int)
        self.dies_in: int | None = None  # calls
        self._next: dict[tuple[str, int], int] = defaultdict(int)
        self._made: dict[str, int] = defaultdict(int)  # how often a topic was made anew
        self._owners: dict[str, object] = {}

    def grow(self, topic: str) -> int:
        """Add a partition to a topic; returns its number."""
        self.topics[topic].append([])
        return len(self.topics[topic]) - 1

    def replace(self, topic: str) -> None:
        """Delete a topic, and make it anew with as many partitions."""
        self._made[topic] += 1
        for unit in range(len(self.topics[topic])):
            self.topics[topic][unit] = []
            self.lows[topic, unit] = self._next[topic, unit] = 0

    def put(self, topic: str, unit: int, value: bytes, at: float = 1.0) -> None:
        """Append a message as a producer outside the job would, at a time in seconds since 1970."""
        self._append(Letter(topic, unit, value), at)

    def extents(self, topic: str) -> dict[int, Extent]:
        """What each partition of a topic holds: its first offset, and the one behind its last."""
        return together([self._extents(part) for part in topics_of(topic)], Extent(0, 0))

    def ids(self, *topics: str) -> dict[str, str]:
        return {part: f"{part} {self._made[part]}" for topic in topics for part in topics_of(topic)}

    def _extents(self, topic: str) -> dict[int, Extent]:
        return {
            unit: Extent(self.lows[topic, unit], self._next[topic, unit]) for unit in range(len(self.topics[topic]))
        }

    def offsets_at(self, topic: str, seconds: float) -> dict[int, int]:
        return {
            unit: next((m.offset for m in self.topics[topic][unit] if m.timestamp >= seconds), extent.high)
            for unit, extent in self.extents(topic).items()
        }

    def fetch(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        """The messages of a partition at offsets [start, to)."""
        self._call()
        topic, unit = place_of(topic, unit)
        if start >= to:
            return
        if start < self.lows[topic, unit]:
            raise MessagesLostError(f"{topic}[{unit}]: the messages from offset {start} on are not there any more")
        yield from [message for message in self.topics[topic][unit] if start <= message.offset < to]

    def follow(self, topic: str, unit: int, start: int, seconds: float) -> list[Message]:
        found = list(self.fetch(topic, unit, start, self._next[topic, unit]))
        if not found:
            time.sleep(min(seconds, 0.001))
        return found

    @contextmanager
    def sending(self) -> Iterator[MemoryLog]:
        yield self
        self._call()

    def send(self, letter: Letter) -> None:
        self._call()
        self._append(letter)

    def publish(self, writer: str, order: Order, letters: Iterable[Letter], places: Sequence[Place]) -> None:
        self._call()
        orders = [
            (stamp.incarnation, stamp.round)
            for topic, unit, sender in places
            for stamp in (
                Stamp.decode(message.headers[HEADER])
                for message in self.topics[topic][unit]
                if HEADER in message.headers
            )
            if stamp.unit == sender
        ]
        if order > max(orders, default=(0, 0)):
            for letter in list(letters):
                self._append(letter)
        self._call()

    def appender(self, writer: str, topic: str) -> _Appender:
        self._owners[writer] = appender = _Appender(self, writer, topic)
        return appender

    def owned(self, writer: str, by: object) -> bool:
        """Whether nobody else has opened the writer's log since."""
        return self._owners[writer] is by

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the messages of each partition before an offset, as a retention would."""
        for unit, offset in before.items():
            self.topics[topic][unit] = [message for message in self.topics[topic][unit] if message.offset >= offset]
            self.lows[topic, unit] = max(offset, self.lows[topic, unit])

    def cut(self, topic: str) -> None:
        """Let nobody read what is in a topic now, as a retention would."""
        for unit in range(len(self.topics[topic])):
            self.lows[topic, unit] = self._next[topic, unit]

    def _append(self, letter: Letter, at: float = 1.0) -> None:
        place = (letter.topic, letter.unit)
        messages = self.topics[letter.topic][letter.unit]
        messages.append(Message(self._next[place], letter.value, at, dict(letter.headers)))
        self._next[place] += 1 + len(messages) % 2

    def _call(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                raise KilledError


class _Appender:
    def __init__(self, log: MemoryLog, writer: str, topic: str) -> None:
        self._log, self._writer, self._topic = log, writer, topic

    def append(self, values: Sequence[bytes]) -> int:
        self._log._call()
        if not self._log.owned(self._writer, self):
            raise FencedError(f"{self._writer}: another driver of this job has taken over")
        for value in values:
            self._log.put(self._topic, 0, value)
        self._log._call()
        return self._log.topics[self._topic][0][-1].offset
