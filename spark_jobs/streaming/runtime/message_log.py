"""What the unit log asks of the log that lies below it: Kafka, or in tests a few lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from springline.spark_jobs.streaming.runtime.rounds import Extent
from springline.spark_jobs.streaming.runtime.step import Message

Order = tuple[int, int]  # incarnation and round: what comes later is greater
Place = tuple[str, int, int]  # where somebody publishes: a topic, a unit of it, and the sender's number in stamps there


@dataclass(frozen=True, slots=True)
class Letter:
    """A message to be sent: the unit of a topic that it is for, its bytes, its headers."""

    topic: str
    unit: int
    value: bytes
    headers: Mapping[str, bytes] = field(default_factory=dict)


class Appender(Protocol):
    """The one writer of a log of one unit; whoever opens it later fences this one off."""

    def append(self, values: Sequence[bytes]) -> int:
        """Append all or none; the offset of the last.

        Raises `FencedError` where somebody else has opened the log since.
        """


class Sending(Protocol):
    """Messages on their way to units."""

    def send(self, letter: Letter) -> None:
        """Send a message; it has arrived when the context that gave this ends."""


class Log(Protocol):
    """Topics of units; offsets ascend and may have gaps."""

    def extents(self, topic: str) -> Mapping[int, Extent]:
        """What each unit of a topic holds; raises `UnknownTopicError`, `LogUnavailableError`."""

    def ids(self, *topics: str) -> Mapping[str, str]:
        """The ids of topics by their names, of a sum those of all of its topics: one that is made anew has another.

        Raises as `extents` does.
        """

    def offsets_at(self, topic: str, seconds: float) -> Mapping[int, int]:
        """In each unit, the first message that was appended then (in seconds since 1970) or later, or behind the last.

        Raises as `extents` does.
        """

    def fetch(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        """The messages at offsets [start, to); raises `MessagesLostError`, `LogUnavailableError`."""

    def follow(self, topic: str, unit: int, start: int, seconds: float) -> Sequence[Message]:
        """The messages from offset `start` on that are there, or the first that come within so many seconds.

        Raises as `fetch` does, except that messages may be long in coming.
        """

    def sending(self) -> AbstractContextManager[Sending]:
        """Send messages in order; its end returns when all have arrived, or raises `LogUnavailableError`."""

    def publish(self, writer: str, order: Order, letters: Iterable[Letter], places: Sequence[Place]) -> None:
        """Write what others read: all of a round or nothing, once, by whichever attempt comes first.

        A round that is not later than the last one that `writer` has written to one of `places` is dropped. Each
        letter's header tells the round and the sender, as `stamps.HEADER`: other senders may write to the same place.
        """

    def appender(self, writer: str, topic: str) -> Appender:
        """Open a log of one unit for writing, and fence off whoever had it open as `writer`."""
