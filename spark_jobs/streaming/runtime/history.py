"""Reads the rounds log of a stage: lines, rounds and broadcast values, and how far it can be truncated."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import xxhash

from springline.persistence.errors import DecodeError, FormatVersionError
from springline.persistence.model.codec import Codec
from springline.spark_jobs.streaming.errors import MissingStateError
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import MessageLog
from springline.spark_jobs.streaming.runtime.rounds import PoisonMessages, RoundPlan
from springline.spark_jobs.streaming.runtime.stage import Stage

BROADCAST_INTERVAL = 256  # rounds after which all broadcast values are logged again, to truncate earlier lines


@dataclass(frozen=True, slots=True)
class BroadcastValue:
    """A value that rounds reference by its hash: the registry of queries, the ring, the routing table, settings."""

    hash: str
    value: Any

    @staticmethod
    def of(value: Any) -> BroadcastValue:
        """Return a JSON value with its hash."""
        return BroadcastValue(xxhash.xxh3_128_hexdigest(json.dumps(value, sort_keys=True).encode()), value)


@dataclass(frozen=True, slots=True)
class TaskLoopEnd:
    """The line that marks the end of a task loop."""


Line: TypeAlias = RoundPlan | BroadcastValue | PoisonMessages | TaskLoopEnd


class _Line(msgspec.Struct, tag_field="line"):
    """A line of a rounds log; its tag is its type."""


class _RoundLine(_Line, tag="round"):
    plan: RoundPlan


class _BroadcastLine(_Line, tag="broadcast"):
    hash: str
    value: Any


class _PoisonLine(_Line, tag="poison"):
    poison: PoisonMessages


class _TaskLoopEndLine(_Line, tag="task-loop-end"):
    pass


_LINES: Codec[_RoundLine | _BroadcastLine | _PoisonLine | _TaskLoopEndLine] = Codec(
    _RoundLine | _BroadcastLine | _PoisonLine | _TaskLoopEndLine, 2, "a line of the rounds log",
    "run the job with the version that wrote it, or reset the job",
)  # fmt: skip


def write_line(line: Line) -> bytes:
    """Encode a line of a rounds log as a message value."""
    if isinstance(line, RoundPlan):
        return _LINES.encode(_RoundLine(line))
    if isinstance(line, BroadcastValue):
        return _LINES.encode(_BroadcastLine(line.hash, line.value))
    return _LINES.encode(_PoisonLine(line) if isinstance(line, PoisonMessages) else _TaskLoopEndLine())


def read_line(message: Message) -> Line | None:
    """Decode a message of a rounds log, the inverse of `write_line`; None for a message in another format.

    Raises `FormatVersionError` for one written by another version of Springline.
    """
    try:
        line = _LINES.decode(message.value, f"the rounds log at offset {message.offset}")
    except FormatVersionError:
        raise
    except DecodeError:
        return None
    if isinstance(line, _RoundLine):
        return line.plan
    if isinstance(line, _BroadcastLine):
        return BroadcastValue(line.hash, line.value)
    return line.poison if isinstance(line, _PoisonLine) else TaskLoopEnd()


@dataclass
class History:
    """The contents of a rounds log: plans by round id, and broadcast values by hash."""

    plans: dict[tuple[int, int], RoundPlan] = field(default_factory=dict)
    broadcast_values: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(messages: Iterable[Message]) -> History:
        """Read the rounds log from its first available message."""
        history = History()
        for message in messages:
            line = read_line(message)
            if isinstance(line, BroadcastValue):
                history.broadcast_values[line.hash] = line.value
            elif isinstance(line, PoisonMessages):
                if (plan := history.plans.get(line.round_id)) is not None:
                    history.plans[line.round_id] = replace(plan, poison={**line.messages, **plan.poison})
            elif isinstance(line, RoundPlan):
                history.plans[line.round_id] = line
        return history

    @property
    def last(self) -> RoundPlan | None:
        """The newest round."""
        return self.plans[max(self.plans)] if self.plans else None

    def retain(self, *plans: RoundPlan) -> None:
        """Keep only these plans and the values that they reference, since a driver runs for a long time."""
        referenced = {digest for plan in plans for digest in plan.broadcast_hashes.values()}
        self.plans = {plan.round_id: plan for plan in plans}
        self.broadcast_values = {
            digest: value for digest, value in self.broadcast_values.items() if digest in referenced
        }

    def open_rounds(self, plan: RoundPlan) -> tuple[RoundPlan, ...]:
        """Return `plan` and the rounds that were planned after it, in order."""
        rounds = [plan]
        while (following := self.after(rounds[-1])) is not None:
            rounds.append(following)
        return tuple(rounds)

    def after(self, plan: RoundPlan) -> RoundPlan | None:
        """Return the round that was planned after `plan`."""
        later = [round_id for round_id, other in self.plans.items() if other.previous_round_id == plan.round_id]
        return self.plans[max(later)] if later else None

    def broadcast_values_of(self, plan: RoundPlan) -> dict[str, Any]:
        """Return the broadcast values of a round, by name; raises `MissingStateError`."""
        try:
            return {name: self.broadcast_values[digest] for name, digest in plan.broadcast_hashes.items()}
        except KeyError as missing:
            raise MissingStateError(f"round {plan.number} names {missing}, which is not in the rounds log") from None


def read_history(stage: Stage, log: MessageLog) -> History:
    """Return the whole rounds log of a stage."""
    bounds = log.offset_bounds(stage.rounds)[0]
    return History.read(log.fetch(stage.rounds, 0, bounds.low, bounds.high))


def truncation_point(messages: Iterable[Message], round_id: tuple[int, int]) -> int | None:
    """Return the offset before which a rounds log is not needed for rounds after `round_id`; None if there is none.

    It is where all broadcast values were logged again, before a round that is not after `round_id`.
    """
    truncation_offset: int | None = None
    line_start: int | None = None  # offset of the first line that belongs to the next round
    for message in messages:
        line_start = message.offset if line_start is None else line_start
        line = read_line(message)
        if not isinstance(line, RoundPlan):
            continue
        if line.round_id > round_id:
            break
        if line.number and line.number % BROADCAST_INTERVAL == 0:
            truncation_offset = line_start
        line_start = None
    return truncation_offset
