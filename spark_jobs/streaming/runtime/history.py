"""The rounds log of a stage as it is read: its lines, the rounds and contents that they tell, what of it can be cut."""

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
from springline.spark_jobs.streaming.runtime.message_log import Log
from springline.spark_jobs.streaming.runtime.rounds import Aside, Plan
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Message

CONTENTS_EVERY = 256  # rounds after which the log holds all contents again, so that what is before can be cut


@dataclass(frozen=True, slots=True)
class Content:
    """Something that rounds name by its hash: the registry of queries, the ring, the routing table, settings."""

    hash: str
    value: Any

    @staticmethod
    def of(value: Any) -> Content:
        """A JSON value with its hash."""
        return Content(xxhash.xxh3_128_hexdigest(json.dumps(value, sort_keys=True).encode()), value)


@dataclass(frozen=True, slots=True)
class ShiftEnd:
    """The line that says that a shift ends."""


Line: TypeAlias = Plan | Content | Aside | ShiftEnd


class _Line(msgspec.Struct, tag_field="line"):
    """A line of a rounds log; its tag says what it holds."""


class _Round(_Line, tag="round"):
    plan: Plan


class _Content(_Line, tag="content"):
    hash: str
    content: Any


class _Aside(_Line, tag="aside"):
    aside: Aside


class _ShiftEnds(_Line, tag="shift ends"):
    pass


_LINES: Codec[_Round | _Content | _Aside | _ShiftEnds] = Codec(
    _Round | _Content | _Aside | _ShiftEnds, 1, "a line of the rounds log",
    "run the job with the version that wrote it, or reset the job, which then begins anew",
)  # fmt: skip


def write_line(line: Line) -> bytes:
    """A line of a rounds log as its message."""
    if isinstance(line, Plan):
        return _LINES.encode(_Round(line))
    if isinstance(line, Content):
        return _LINES.encode(_Content(line.hash, line.value))
    return _LINES.encode(_Aside(line) if isinstance(line, Aside) else _ShiftEnds())


def read_line(message: Message) -> Line | None:
    """The inverse of `write_line`; None of a message that no driver of ours has written.

    Raises `FormatVersionError` of one that another version of ours has written.
    """
    try:
        line = _LINES.decode(message.value, f"the rounds log at offset {message.offset}")
    except FormatVersionError:
        raise
    except DecodeError:
        return None
    if isinstance(line, _Round):
        return line.plan
    if isinstance(line, _Content):
        return Content(line.hash, line.content)
    return line.aside if isinstance(line, _Aside) else ShiftEnd()


@dataclass
class History:
    """What a rounds log holds: the rounds by order, and contents by their hash."""

    plans: dict[tuple[int, int], Plan] = field(default_factory=dict)
    contents: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(messages: Iterable[Message]) -> History:
        """The rounds log from its first message that is there."""
        found = History()
        for message in messages:
            line = read_line(message)
            if isinstance(line, Content):
                found.contents[line.hash] = line.value
            elif isinstance(line, Aside):
                if (plan := found.plans.get(line.order)) is not None:
                    found.plans[line.order] = replace(plan, aside={line.unit: line.messages, **plan.aside})
            elif isinstance(line, Plan):
                found.plans[line.order] = line
        return found

    @property
    def last(self) -> Plan | None:
        """The newest round."""
        return self.plans[max(self.plans)] if self.plans else None

    def keep(self, *plans: Plan) -> None:
        """Forget all but some rounds and what they name: a driver lives for long."""
        named = {digest for plan in plans for digest in plan.versions.values()}
        self.plans = {plan.order: plan for plan in plans}
        self.contents = {digest: value for digest, value in self.contents.items() if digest in named}

    def after(self, plan: Plan) -> Plan | None:
        """The round that was planned after `plan`."""
        following = [order for order, other in self.plans.items() if other.before == plan.order]
        return self.plans[max(following)] if following else None

    def contents_of(self, plan: Plan) -> dict[str, Any]:
        """What the versions that a round names stand for; raises `MissingStateError`."""
        try:
            return {name: self.contents[digest] for name, digest in plan.versions.items()}
        except KeyError as missing:
            raise MissingStateError(
                f"round {plan.number} names {missing}, and the rounds log does not hold it"
            ) from None


def read_history(stage: Stage, log: Log) -> History:
    """All that is in the rounds log of a stage."""
    extent = log.extents(stage.rounds)[0]
    return History.read(log.fetch(stage.rounds, 0, extent.low, extent.high))


def cut_before(messages: Iterable[Message], order: tuple[int, int]) -> int | None:
    """The offset before which a rounds log is not needed for the rounds after `order`; None if nothing can be cut.

    It is where all contents were written again, before a round that is not after `order`.
    """
    found: int | None = None
    begun: int | None = None  # where the lines began that belong to the next round
    for message in messages:
        begun = message.offset if begun is None else begun
        line = read_line(message)
        if not isinstance(line, Plan):
            continue
        if line.order > order:
            break
        if line.number and line.number % CONTENTS_EVERY == 0:
            found = begun
        begun = None
    return found


def newest_complete(stage: Stage, history: History) -> Plan | None:
    """The newest round after which every unit's state is there, of the newest incarnation."""
    last = history.last
    for order in sorted(history.plans, reverse=True):
        plan = history.plans[order]
        if last is None or plan.incarnation < last.incarnation:
            break
        if all(stage.versions(unit).whole(*order) for unit in plan.ranges):
            return plan
    return None
