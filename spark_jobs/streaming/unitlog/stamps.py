"""Stamps: who sent a message, in which round, and which of that round's messages it is; and what a unit accepts.

A round of a unit upstream is a sequence of buffers, numbered from 0, closed by an end marker in every unit
downstream. Every attempt of a round sends the same messages again, from 0. A unit takes only the successor of what
it took last from each unit upstream, so retries, zombies and replays change nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.streaming.errors import Gap, NoStamp
from spark_jobs.streaming.unitlog.step import Ended, Message

HEADER = "springline-stamp"
_FORM = struct.Struct("<BIIQIBQdQQQd")
_VERSION, _UNDATED = 4, b"\x03"  # the version before did not tell the clock
_DATA, _ENDED, _ENDED_IDLE = range(3)


@dataclass(frozen=True, slots=True)
class End:
    """The end marker of a round: its buffers in this downstream unit, the watermark, all bytes sent so far.

    A unit that is `idle` holds nobody back, however far its watermark is. [start, to) are the offsets of its own log
    that the round has read, `clock` is the round's, in seconds since 1970.
    """

    count: int
    watermark: float | None
    sent_bytes: int
    idle: bool = False
    start: int = 0
    to: int = 0
    clock: float = 0.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """Incarnation, unit upstream, round and place in it; `end` closes the round."""

    incarnation: int
    unit: int
    round: int
    sequence: int
    end: End | None = None

    def encode(self) -> bytes:
        """70 bytes for a message's header."""
        end = self.end or End(0, None, 0)
        watermark = math.nan if end.watermark is None else end.watermark
        kind = _DATA if self.end is None else _ENDED_IDLE if self.end.idle else _ENDED
        return _FORM.pack(
            _VERSION, self.incarnation, self.unit, self.round, self.sequence,
            kind, end.count, watermark, end.sent_bytes, end.start, end.to, end.clock,
        )  # fmt: skip

    def header(self) -> dict[str, bytes]:
        """As the header of a message."""
        return {HEADER: self.encode()}

    @staticmethod
    def decode(content: bytes) -> Stamp:
        """Read a header; raises `NoStamp`."""
        if content[:1] == _UNDATED:
            content = bytes([_VERSION]) + content[1:] + bytes(8)
        if len(content) != _FORM.size or content[0] != _VERSION:
            raise NoStamp(f"not a stamp: {len(content)} bytes that begin with {content[:4]!r}")
        _, incarnation, unit, number, sequence, kind, count, watermark, sent, start, to, clock = _FORM.unpack(content)
        told = End(count, None if math.isnan(watermark) else watermark, sent, kind == _ENDED_IDLE, start, to, clock)
        end = None if kind == _DATA else told
        return Stamp(incarnation, unit, number, sequence, end)


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken last from one unit upstream: the round, the next place in it, whether its end was seen.

    The others are of the last end that was seen; a clock of 0 is not known.
    """

    round: int = 0
    next: int = 0
    ended: bool = True
    watermark: float | None = None
    sent_bytes: int = 0
    idle: bool = False
    clock: float = 0.0

    def as_json(self) -> list[Any]:
        """For a state's scalars."""
        return [self.round, self.next, self.ended, self.watermark, self.sent_bytes, self.idle, self.clock]

    @staticmethod
    def from_json(told: list[Any]) -> Taken:
        """The inverse of `as_json`."""
        return Taken(*told)

    def follows(self, stamp: Stamp) -> bool:
        """Whether `stamp` is the successor of what was taken last."""
        return (stamp.round, stamp.sequence) == self._following

    def skips(self, stamp: Stamp) -> bool:
        """Whether `stamp` is a later one of the same round: of an attempt that has lost what was before it."""
        number, sequence = self._following
        return stamp.round == number and stamp.sequence > sequence

    @property
    def _following(self) -> tuple[int, int]:
        """Round and place of what comes next."""
        return (self.round + 1, 0) if self.ended else (self.round, self.next)

    def knows(self, stamp: Stamp) -> bool:
        """Whether `stamp` was taken already, by this attempt or another."""
        if stamp.round == self.round:
            return self.ended or stamp.sequence < self.next
        return stamp.round < self.round

    def after(self, stamp: Stamp) -> Taken:
        """With `stamp` taken."""
        if stamp.end is None:
            return replace(self, round=stamp.round, next=stamp.sequence + 1, ended=False)
        end = stamp.end
        watermark = self.watermark if end.watermark is None else end.watermark
        return Taken(stamp.round, stamp.sequence + 1, True, watermark, end.sent_bytes, end.idle, end.clock)


@dataclass(frozen=True)
class Accepted:
    """What a unit takes of a range of its log, and how far it is with each unit upstream afterwards."""

    messages: tuple[Message, ...]
    taken: Mapping[int, Taken]
    dropped: int
    ended: tuple[Ended, ...] = ()

    @property
    def watermarks(self) -> dict[int, float]:
        """The watermark of each unit upstream that has told one."""
        return {unit: taken.watermark for unit, taken in self.taken.items() if taken.watermark is not None}

    @property
    def idle(self) -> frozenset[int]:
        """The units upstream that are idle, as of a clock that is known."""
        return frozenset(unit for unit, taken in self.taken.items() if taken.idle and taken.clock)

    @property
    def clocks(self) -> dict[int, float]:
        """The clock of the last round of each unit upstream that was taken to its end."""
        return {unit: taken.clock for unit, taken in self.taken.items() if taken.clock}


def accept(messages: Iterable[Message], taken: Mapping[int, Taken], incarnation: int, *, log: str) -> Accepted:
    """Keep the successors and drop what was taken before, or was undone by going back in time.

    What an earlier incarnation sent is dropped: it was taken before the savepoint that this one went back to, or is
    undone. So is what an attempt has sent after something that was lost on the way: it has failed then, and another one
    sends all of the round again. A unit upstream that is not in `taken` begins with its round 1. Raises `Gap`, naming
    `log`, where a later round comes and a message is missing: it will not come any more, since a round begins when all
    that the one before sent has arrived.
    """
    now = dict(taken)
    kept = []
    ended = []
    dropped = 0
    for message in messages:
        try:
            stamp = Stamp.decode(message.headers[HEADER])
        except (KeyError, NoStamp) as error:
            raise NoStamp(f"{log}, offset {message.offset}: a message without a stamp of ours: {error}") from error
        last = now.get(stamp.unit, Taken())
        undone = stamp.incarnation < incarnation
        if undone or (stamp.incarnation == incarnation and (last.knows(stamp) or last.skips(stamp))):
            dropped += 1
            continue
        if stamp.incarnation > incarnation or not last.follows(stamp):
            raise Gap(
                f"{log}, offset {message.offset}: unit {stamp.unit} upstream goes on with round {stamp.round}, message"
                f" {stamp.sequence} (incarnation {stamp.incarnation}); taken so far: round {last.round}, "
                f"{last.next} messages{'' if last.ended else ' and no end'} (incarnation {incarnation})"
            )
        if stamp.end is not None and stamp.end.count != stamp.sequence:
            raise Gap(
                f"{log}, offset {message.offset}: round {stamp.round} of unit {stamp.unit} upstream ends after "
                f"{stamp.sequence} messages and should have {stamp.end.count}"
            )
        now[stamp.unit] = last.after(stamp)
        if stamp.end is None:
            kept.append(message)
        else:
            ended.append(Ended(stamp.unit, stamp.round, stamp.end.start, stamp.end.to, stamp.end.watermark))
    return Accepted(tuple(kept), now, dropped, tuple(ended))
