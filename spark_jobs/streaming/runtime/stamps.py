"""Stamps: the sender, round and sequence number of each message between stages, and the check of what a unit accepts.

A round of a unit upstream is a sequence of buffers, numbered from 0, closed by an end marker in every unit downstream.
Every attempt of a round sends the same messages again, from 0. A unit accepts from each unit upstream only the
successor of the last accepted message, so duplicates from retries, zombies and replays are dropped.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from springline.persistence.model.codec import from_json_value
from springline.spark_jobs.streaming.errors import MissingStampError, StampGapError
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import EndedRound

HEADER = "springline-stamp"
MAX_STAGE_UNITS = 4_096  # units of a stage, at most: the sender numbers of different stages are this far apart
_FORMAT = struct.Struct("<BIIQIBQdQd")
_START = struct.Struct("<IQ")  # of an end: a partition, and the first offset that was read of it
_VERSION = 6
_END, _IDLE = 1, 2  # bits of the field `kind`


@dataclass(frozen=True, slots=True)
class EndMarker:
    """The end marker of a round: its number of buffers in this downstream unit, the watermark, all bytes sent so far.

    An `idle` unit does not hold back the watermark downstream. `clock` is the round's, in seconds since 1970. `starts`
    are the first offsets that the round has read, by partition, without the partitions of which it read none.
    """

    count: int
    watermark: float | None
    sent_bytes: int
    idle: bool = False
    clock: float = 0.0
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The incarnation, sender, round and sequence number of a message; `end` closes the round."""

    incarnation: int
    unit: int
    round: int
    sequence: int
    end: EndMarker | None = None

    def encode(self) -> bytes:
        """Encode the stamp for a message's header: 54 bytes, and 12 for each start of an end."""
        end = self.end or EndMarker(0, None, 0)
        watermark = math.nan if end.watermark is None else end.watermark
        kind = (self.end is not None) * _END | end.idle * _IDLE
        fixed = _FORMAT.pack(
            _VERSION, self.incarnation, self.unit, self.round, self.sequence,
            kind, end.count, watermark, end.sent_bytes, end.clock,
        )  # fmt: skip
        return fixed + b"".join(_START.pack(*start) for start in sorted(end.starts.items()))

    def header(self) -> dict[str, bytes]:
        """Return the stamp as the headers of a message."""
        return {HEADER: self.encode()}

    @staticmethod
    def decode(content: bytes) -> Stamp:
        """Decode a header; raises `MissingStampError`."""
        size, more = divmod(len(content) - _FORMAT.size, _START.size)
        if size < 0 or more or content[0] != _VERSION:
            raise MissingStampError(f"not a stamp: {len(content)} bytes that begin with {content[:4]!r}")
        _, incarnation, unit, number, sequence, kind, count, watermark, sent, clock = _FORMAT.unpack_from(content)
        end = None
        if kind & _END:
            starts = dict(_START.iter_unpack(content[_FORMAT.size :]))
            end = EndMarker(
                count, None if math.isnan(watermark) else watermark, sent, bool(kind & _IDLE), clock, starts
            )
        return Stamp(incarnation, unit, number, sequence, end)


def stamp_of(message: Message) -> Stamp | None:
    """Return the stamp of a message; None if it has no valid one."""
    try:
        return Stamp.decode(message.headers[HEADER])
    except (KeyError, MissingStampError):
        return None


class UpstreamPosition(msgspec.Struct, frozen=True, array_like=True):
    """Position after the last message accepted from one unit upstream: round, next sequence number, whether the round
    ended.

    The other fields are those of the last end marker; a clock of 0 is unknown. In a state's notes it is encoded as a
    list, since every version has one for each unit upstream.
    """

    round: int = 0
    next_sequence: int = 0
    round_ended: bool = True
    watermark: float | None = None
    sent_bytes: int = 0
    idle: bool = False
    clock: float = 0.0

    def is_followed_by(self, stamp: Stamp) -> bool:
        """Return whether `stamp` is the successor of the last accepted message."""
        return (stamp.round, stamp.sequence) == self._next_place

    def has_gap_before(self, stamp: Stamp) -> bool:
        """Return whether `stamp` is a later one of the same round, whose attempt has lost a message before it."""
        number, sequence = self._next_place
        return stamp.round == number and stamp.sequence > sequence

    @property
    def _next_place(self) -> tuple[int, int]:
        """Round and sequence number of the next message."""
        return (self.round + 1, 0) if self.round_ended else (self.round, self.next_sequence)

    def has_accepted(self, stamp: Stamp) -> bool:
        """Return whether `stamp` was accepted before, from this attempt or another."""
        if stamp.round == self.round:
            return self.round_ended or stamp.sequence < self.next_sequence
        return stamp.round < self.round

    def advance(self, stamp: Stamp) -> UpstreamPosition:
        """Return the position after accepting `stamp`."""
        if stamp.end is None:
            return msgspec.structs.replace(self, round=stamp.round, next_sequence=stamp.sequence + 1, round_ended=False)
        end = stamp.end
        watermark = self.watermark if end.watermark is None else end.watermark
        return UpstreamPosition(stamp.round, stamp.sequence + 1, True, watermark, end.sent_bytes, end.idle, end.clock)


def upstream_positions(notes: Mapping[str, Any], where: str) -> dict[int, UpstreamPosition]:
    """Return the position for each unit upstream, from the notes of a version; raises `DecodeError`."""
    return from_json_value(dict[int, UpstreamPosition], notes.get("positions", {}), f"{where}: accepted positions")


@dataclass(frozen=True)
class AcceptedMessages:
    """What a unit accepts from a range of its log, and its position for each unit upstream afterwards.

    `foreign_offsets` are the offsets of messages without a valid stamp.
    """

    messages: tuple[Message, ...]
    positions: Mapping[int, UpstreamPosition]
    dropped_count: int
    ended_rounds: tuple[EndedRound, ...] = ()
    foreign_offsets: tuple[int, ...] = ()

    @property
    def watermarks(self) -> dict[int, float]:
        """The watermark of each unit upstream that has sent one."""
        return {unit: position.watermark for unit, position in self.positions.items() if position.watermark is not None}

    @property
    def idle_units(self) -> frozenset[int]:
        """The units upstream that are idle."""
        return frozenset(unit for unit, position in self.positions.items() if position.idle)

    @property
    def clocks(self) -> dict[int, float]:
        """The clock of the last completed round of each unit upstream."""
        return {unit: position.clock for unit, position in self.positions.items() if position.clock}


def accept(
    messages: Iterable[Message], positions: Mapping[int, UpstreamPosition], incarnation: int, *, log: str
) -> AcceptedMessages:
    """Accept the successors of the last accepted messages, and drop duplicates and messages of earlier incarnations.

    Messages of an earlier incarnation were accepted before the savepoint of the current one, or are undone. Messages of
    an attempt after a lost message are dropped too: that attempt has failed, and another one sends the whole round
    again. So are messages without a valid stamp. A unit upstream that is not in `positions` begins with its round 1.
    Raises `StampGapError`, naming `log`, if a later round follows and a message is missing: it will not arrive any
    more, since a round begins only after all messages of the previous one have arrived.
    """
    new_positions = dict(positions)
    accepted = []
    ended_rounds = []
    foreign_offsets = []
    dropped_count = 0
    for message in messages:
        stamp = stamp_of(message)
        if stamp is None:
            foreign_offsets.append(message.offset)
            continue
        last = new_positions.get(stamp.unit) or UpstreamPosition()
        undone = stamp.incarnation < incarnation
        if undone or (stamp.incarnation == incarnation and (last.has_accepted(stamp) or last.has_gap_before(stamp))):
            dropped_count += 1
            continue
        if stamp.incarnation > incarnation or not last.is_followed_by(stamp):
            raise StampGapError(
                f"{log}, offset {message.offset}: unit {stamp.unit} upstream continues with round {stamp.round}, "
                f"message {stamp.sequence} (incarnation {stamp.incarnation}); accepted so far: round {last.round}, "
                f"{last.next_sequence} messages{'' if last.round_ended else ' and no end'} (incarnation {incarnation})"
            )
        if stamp.end is not None and stamp.end.count != stamp.sequence:
            raise StampGapError(
                f"{log}, offset {message.offset}: round {stamp.round} of unit {stamp.unit} upstream ends after "
                f"{stamp.sequence} messages instead of {stamp.end.count}"
            )
        new_positions[stamp.unit] = last.advance(stamp)
        if stamp.end is None:
            accepted.append(message)
        else:
            ended_rounds.append(EndedRound(stamp.unit, stamp.round, stamp.end.watermark, stamp.end.starts))
    return AcceptedMessages(tuple(accepted), new_positions, dropped_count, tuple(ended_rounds), tuple(foreign_offsets))
