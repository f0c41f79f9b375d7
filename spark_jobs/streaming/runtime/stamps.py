"""Stamps: who sent a message, in which round, and which of that round's messages it is; and what a unit accepts.

A round of a unit upstream is a sequence of buffers, numbered from 0, closed by an end marker in every unit
downstream. Every attempt of a round sends the same messages again, from 0. A unit takes only the successor of what
it took last from each unit upstream, so retries, zombies and replays change nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from springline.persistence.model.codec import from_plain
from springline.spark_jobs.streaming.errors import MissingStampError, StampGapError
from springline.spark_jobs.streaming.runtime.step import Ended, Message

HEADER = "springline-stamp"
PLACE = 4_096  # units of a stage, at most: the numbers of units of different stages in stamps are so far apart
_FORM = struct.Struct("<BIIQIBQdQQQdI")
_VERSION = 5
_END, _IDLE, _BEGINS = 1, 2, 4  # in its kind


@dataclass(frozen=True, slots=True)
class End:
    """The end marker of a round: its buffers in this downstream unit, the watermark, all bytes sent so far.

    A unit that is `idle` holds nobody back, however far its watermark is. [start, to) are the offsets of its own log
    that the round has read, `clock` is the round's, in seconds since 1970, `units` how many units of its stage had it.
    """

    count: int
    watermark: float | None
    sent_bytes: int
    idle: bool = False
    start: int = 0
    to: int = 0
    clock: float = 0.0
    units: int = 0


@dataclass(frozen=True, slots=True)
class Stamp:
    """Incarnation, unit upstream, round and place in it; `end` closes the round.

    With `begins`, it is the first round of a unit that came later than the others.
    """

    incarnation: int
    unit: int
    round: int
    sequence: int
    end: End | None = None
    begins: bool = False

    def encode(self) -> bytes:
        """74 bytes for a message's header."""
        end = self.end or End(0, None, 0)
        watermark = math.nan if end.watermark is None else end.watermark
        kind = (self.end is not None) * _END | end.idle * _IDLE | self.begins * _BEGINS
        return _FORM.pack(
            _VERSION, self.incarnation, self.unit, self.round, self.sequence,
            kind, end.count, watermark, end.sent_bytes, end.start, end.to, end.clock, end.units,
        )  # fmt: skip

    def header(self) -> dict[str, bytes]:
        """As the header of a message."""
        return {HEADER: self.encode()}

    @staticmethod
    def decode(content: bytes) -> Stamp:
        """Read a header; raises `MissingStampError`."""
        if len(content) != _FORM.size or content[0] != _VERSION:
            raise MissingStampError(f"not a stamp: {len(content)} bytes that begin with {content[:4]!r}")
        _, incarnation, unit, number, sequence, kind, count, watermark, sent, *more = _FORM.unpack(content)
        end = None
        if kind & _END:
            end = End(count, None if math.isnan(watermark) else watermark, sent, bool(kind & _IDLE), *more)
        return Stamp(incarnation, unit, number, sequence, end, bool(kind & _BEGINS))


def stamp_of(message: Message) -> Stamp | None:
    """The stamp of a message; None if it has none of ours."""
    try:
        return Stamp.decode(message.headers[HEADER])
    except (KeyError, MissingStampError):
        return None


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """What was taken last from one unit upstream: the round, the next place in it, whether its end was seen.

    The others are of the last end that was seen; a clock of 0 is not known. In a state's notes it is a list: there is
    one for each unit upstream, in every version.
    """

    round: int = 0
    next: int = 0
    ended: bool = True
    watermark: float | None = None
    sent_bytes: int = 0
    idle: bool = False
    clock: float = 0.0
    units: int = 0

    @staticmethod
    def before(stamp: Stamp) -> Taken:
        """What was taken of a unit before its first message, which is `stamp`."""
        return Taken(stamp.round - 1) if stamp.begins else Taken()

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
            return msgspec.structs.replace(self, round=stamp.round, next=stamp.sequence + 1, ended=False)
        end = stamp.end
        watermark = self.watermark if end.watermark is None else end.watermark
        return Taken(stamp.round, stamp.sequence + 1, True, watermark, end.sent_bytes, end.idle, end.clock, end.units)


def taken_in(notes: Mapping[str, Any], where: str) -> dict[int, Taken]:
    """What was taken of each unit upstream, as a version's notes tell it; raises `DecodeError`."""
    return from_plain(dict[int, Taken], notes.get("taken", {}), f"{where}: what was taken")


@dataclass(frozen=True)
class Accepted:
    """What a unit takes of a range of its log, and how far it is with each unit upstream afterwards.

    `foreign` are the offsets of messages that no stage of ours has sent.
    """

    messages: tuple[Message, ...]
    taken: Mapping[int, Taken]
    dropped: int
    ended: tuple[Ended, ...] = ()
    foreign: tuple[int, ...] = ()

    @property
    def watermarks(self) -> dict[int, float]:
        """The watermark of each unit upstream that has told one."""
        return {unit: taken.watermark for unit, taken in self.taken.items() if taken.watermark is not None}

    @property
    def idle(self) -> frozenset[int]:
        """The units upstream that are idle."""
        return frozenset(unit for unit, taken in self.taken.items() if taken.idle)

    @property
    def upstream(self) -> frozenset[int]:
        """All units upstream, as far as one of them has told how many its stage has."""
        units = {unit // PLACE * PLACE: 0 for unit in self.taken}
        for unit, taken in self.taken.items():
            units[unit // PLACE * PLACE] = max(units[unit // PLACE * PLACE], taken.units)
        return frozenset(first + unit for first, many in units.items() for unit in range(many))

    @property
    def clocks(self) -> dict[int, float]:
        """The clock of the last round of each unit upstream that was taken to its end."""
        return {unit: taken.clock for unit, taken in self.taken.items() if taken.clock}


def accept(messages: Iterable[Message], taken: Mapping[int, Taken], incarnation: int, *, log: str) -> Accepted:
    """Keep the successors and drop what was taken before, or was undone by going back in time.

    What an earlier incarnation sent is dropped: it was taken before the savepoint that this one went back to, or is
    undone. So is what an attempt has sent after something that was lost on the way: it has failed then, and another one
    sends all of the round again. So is what has no stamp of ours. A unit upstream that is not in `taken` begins with
    its round 1, or with one that says so. Raises `StampGapError`, naming `log`, where a later round comes and a message
    is
    missing: it will not come any more, since a round begins when all that the one before sent has arrived.
    """
    now = dict(taken)
    kept = []
    ended = []
    foreign = []
    dropped = 0
    for message in messages:
        stamp = stamp_of(message)
        if stamp is None:
            foreign.append(message.offset)
            continue
        last = now.get(stamp.unit) or Taken.before(stamp)
        undone = stamp.incarnation < incarnation
        if undone or (stamp.incarnation == incarnation and (last.knows(stamp) or last.skips(stamp))):
            dropped += 1
            continue
        if stamp.incarnation > incarnation or not last.follows(stamp):
            raise StampGapError(
                f"{log}, offset {message.offset}: unit {stamp.unit} upstream goes on with round {stamp.round}, message"
                f" {stamp.sequence} (incarnation {stamp.incarnation}); taken so far: round {last.round}, "
                f"{last.next} messages{'' if last.ended else ' and no end'} (incarnation {incarnation})"
            )
        if stamp.end is not None and stamp.end.count != stamp.sequence:
            raise StampGapError(
                f"{log}, offset {message.offset}: round {stamp.round} of unit {stamp.unit} upstream ends after "
                f"{stamp.sequence} messages and should have {stamp.end.count}"
            )
        now[stamp.unit] = last.after(stamp)
        if stamp.end is None:
            kept.append(message)
        else:
            end = stamp.end
            ended.append(Ended(stamp.unit, stamp.round, end.start, end.to, end.watermark, end.units))
    return Accepted(tuple(kept), now, dropped, tuple(ended), tuple(foreign))
