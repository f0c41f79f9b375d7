"""What has come of router rounds that are not done yet: tuples by what is to be done with them, orders, ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import from_plain, plain
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.errors import InvalidBatchError, InvalidCommandsError
from springline.spark_jobs.streaming.join.unit.runs import Run, joined, sorted_run
from springline.spark_jobs.streaming.join.wire import Act, Orders, Sent, Side
from springline.spark_jobs.streaming.runtime.step import Ended, Input, Message, State

WAITING = "waiting"
WHERE = "the state of a unit of a join"  # for errors
_HEAD = b"waiting"
_Head = tuple[int, Side, Act]


@dataclass(frozen=True)
class Gathered:
    """What a router round brought a unit: tuples to be stored, tuples to be probed with, each side's as a run.

    `clock` is the round's (seconds since 1970), where routers tell it.
    """

    stores: Mapping[Side, Run | None]
    probes: Mapping[Side, Run | None]
    orders: Orders | None
    clock: float | None


@dataclass
class Waiting:
    """Tuples and orders of rounds that are not done; a round is whole when every router unit has ended it.

    `routers` has from which round on there are how many router units.
    """

    kept: dict[_Head, list[pa.RecordBatch]] = field(default_factory=dict)  # of rounds before, as they lie in the state
    fresh: dict[_Head, list[pa.RecordBatch]] = field(default_factory=dict)
    orders: dict[int, Orders] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    clocks: dict[int, float] = field(default_factory=dict)
    routers: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def of(state: State) -> Waiting:
        """From a unit's state."""
        found = Waiting()
        for batch in state.runs.get(WAITING, ()):
            number, side, act = json.loads(batch.schema.metadata[_HEAD])
            found.kept.setdefault((number, Side(side), Act(act)), []).append(batch)
        found.orders = from_plain(dict[int, Orders], state.scalars.get("orders", {}), WHERE)
        found.ends = {int(unit): number for unit, number in state.scalars.get("ended", {}).items()}
        found.clocks = {int(n): clock for n, clock in state.scalars.get("clocks", {}).items()}
        found.routers = {int(n): many for n, many in state.scalars.get("routers", {}).items()}
        return found

    @property
    def whole(self) -> int:
        """The last round that is whole."""
        first = {unit: since for since, many in sorted(self.routers.items(), reverse=True) for unit in range(many)}
        return min((self.ends.get(unit, since - 1) for unit, since in first.items()), default=0)

    @property
    def tuples(self) -> int:
        """How many tuples wait."""
        return sum(batch.num_rows for held in (self.kept, self.fresh) for each in held.values() for batch in each)

    def take(self, given: Input, condition: Condition, done: int) -> int:
        """Take what came in; how many tuples that were. Raises `InvalidBatchError`, `InvalidCommandsError`."""
        tuples = 0
        for message in given.messages:
            sent = _opened(given, message)
            where = f"{given.stage}, unit {given.unit}, offset {message.offset}"
            if sent.round <= done:
                raise InvalidBatchError(
                    f"{where}: router round {sent.round}, and this unit has begun round {done} already"
                )
            if sent.orders is not None and self.orders.setdefault(sent.round, sent.orders) != sent.orders:
                raise InvalidCommandsError(
                    f"{where}: router round {sent.round}: two router units send different orders"
                )
            if sent.tuples.num_rows:
                wanted = condition.tuple_schema(sent.side)
                if sent.tuples.schema != wanted:
                    raise InvalidBatchError(
                        f"{where}: columns {sent.tuples.schema.names}, and the join has {wanted.names}"
                    )
                head = (sent.round, sent.side, sent.act)
                self.fresh.setdefault(head, []).append(sent.tuples.replace_schema_metadata(None))
                tuples += sent.tuples.num_rows
        self._end(given.ended)
        return tuples

    def next(self, done: int) -> int | None:
        """The round that can be done next, if it is whole."""
        return done + 1 if done < self.whole else None

    def gather(self, number: int) -> Gathered:
        """All of a round, which no longer waits."""
        runs: dict[tuple[Side, Act], Run | None] = {}
        for side in Side:
            for act in Act:
                head = (number, side, act)
                runs[side, act] = sorted_run([*self.kept.pop(head, ()), *self.fresh.pop(head, ())])
        stores = {side: joined([runs[side, Act.STORE], runs[side, Act.BOTH]]) for side in Side}
        probes = {side: joined([runs[side, Act.PROBE], runs[side, Act.BOTH]]) for side in Side}
        return Gathered(stores, probes, self.orders.pop(number, None), self.clocks.pop(number, None))

    def scalars(self) -> dict[str, Any]:
        """For a state."""
        clocks = {str(number): clock for number, clock in sorted(self.clocks.items())}
        return {
            "ended": {str(unit): number for unit, number in sorted(self.ends.items())},
            "routers": {str(since): many for since, many in sorted(self.routers.items())},
            "orders": plain(dict(sorted(self.orders.items()))),
            **({"clocks": clocks} if clocks else {}),
        }

    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """For a state: what waited before as it was, and what is new as one batch for each round, side and act."""
        found: list[pa.RecordBatch] = []
        for head in sorted({*self.kept, *self.fresh}):
            found += self.kept.get(head, ())
            if new := self.fresh.get(head):
                number, side, act = head
                told = json.dumps([number, int(side), act.value])
                found.append(pa.concat_batches(new).replace_schema_metadata({_HEAD: told}))
        return tuple(found)

    def _end(self, ended: Sequence[Ended]) -> None:
        for each in ended:
            self.ends[each.unit] = max(each.round, self.ends.get(each.unit, 0))
            if each.units > max(self.routers.values(), default=0):  # they only become more
                self.routers[each.round] = each.units
            if each.watermark is not None:
                self.clocks[each.round] = each.watermark


def _opened(given: Input, message: Message) -> Sent:
    """What a router sent; raises `InvalidBatchError`."""
    try:
        return Sent.read(message.value)
    except (pa.ArrowInvalid, StopIteration, KeyError, TypeError, ValueError, DecodeError) as error:
        where = f"{given.stage}, unit {given.unit}, offset {message.offset}"
        raise InvalidBatchError(f"{where}: {len(message.value)} bytes that no router sent: {error}") from error
