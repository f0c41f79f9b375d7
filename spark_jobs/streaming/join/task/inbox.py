"""Inbox of a task: tuples, commands and end markers of router rounds that are not processed yet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.persistence.errors import DecodeError
from springline.persistence.model.codec import from_json_value, to_json_value
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.errors import InvalidBatchError, InvalidCommandsError
from springline.spark_jobs.streaming.join.wire import ACTION, Action, EpochCommands, JoinSide, RoutedBatch
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import EndedRound, Input, State

WAITING = "pending"
WHERE = "the state of a task of a join"  # for errors
_HEADER_KEY = b"pending"
_GroupKey = tuple[int, JoinSide]


@dataclass(frozen=True)
class RoundInput:
    """The input of a task from one router round: tuples to store, and tuples to probe with, by side.

    `clock` is the round's (seconds since 1970), if routers send it.
    """

    stores: Mapping[JoinSide, pa.RecordBatch | None]
    probes: Mapping[JoinSide, pa.RecordBatch | None]
    commands: EpochCommands | None
    clock: float | None


@dataclass
class RoundInbox:
    """Tuples and commands of rounds that are not processed; a round is complete when every router unit has ended it.

    `routers` are the numbers of all router units.
    """

    stored: dict[_GroupKey, list[pa.RecordBatch]] = field(
        default_factory=dict
    )  # from earlier stage rounds, as in the state
    fresh: dict[_GroupKey, list[pa.RecordBatch]] = field(default_factory=dict)
    commands: dict[int, EpochCommands] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    clocks: dict[int, float] = field(default_factory=dict)
    routers: frozenset[int] = frozenset()

    @staticmethod
    def of(state: State, routers: frozenset[int]) -> RoundInbox:
        """Restore from a task's state."""
        inbox = RoundInbox(routers=routers)
        for batch in state.runs.get(WAITING, ()):
            number, side = json.loads(batch.schema.metadata[_HEADER_KEY])
            inbox.stored.setdefault((number, JoinSide(side)), []).append(batch)
        inbox.commands = from_json_value(dict[int, EpochCommands], state.scalars.get("commands", {}), WHERE)
        inbox.ends = {int(unit): number for unit, number in state.scalars.get("ended", {}).items()}
        inbox.clocks = {int(n): clock for n, clock in state.scalars.get("clocks", {}).items()}
        return inbox

    @property
    def last_complete_round(self) -> int:
        """The last complete round."""
        return min((self.ends.get(unit, 0) for unit in self.routers), default=0)

    @property
    def tuples(self) -> int:
        """The number of queued tuples."""
        return sum(batch.num_rows for groups in (self.stored, self.fresh) for each in groups.values() for batch in each)

    def accept(self, step_input: Input, condition: Condition, current_round: int) -> int:
        """Add the input; returns its number of tuples. Raises `InvalidBatchError`, `InvalidCommandsError`."""
        tuples = 0
        for message in step_input.messages:
            sent = _read_batch(step_input, message)
            where = f"{step_input.stage}, task {step_input.unit}, offset {message.offset}"
            if sent.round <= current_round:
                raise InvalidBatchError(
                    f"{where}: router round {sent.round}, but this task is already in round {current_round}"
                )
            if sent.commands is not None and self.commands.setdefault(sent.round, sent.commands) != sent.commands:
                raise InvalidCommandsError(
                    f"{where}: router round {sent.round}: two router units send different commands"
                )
            if sent.tuples.num_rows:
                expected = condition.routed_schema(sent.side)
                if sent.tuples.schema != expected:
                    raise InvalidBatchError(
                        f"{where}: columns {sent.tuples.schema.names}, but the join has {expected.names}"
                    )
                group = (sent.round, sent.side)
                self.fresh.setdefault(group, []).append(sent.tuples.replace_schema_metadata(None))
                tuples += sent.tuples.num_rows
        self._record_ends(step_input.ended_rounds)
        return tuples

    def next_round(self, current_round: int) -> int | None:
        """Return the round to process next, if it is complete."""
        return current_round + 1 if current_round < self.last_complete_round else None

    def take_round(self, number: int) -> RoundInput:
        """Remove and return the input of a round."""
        stores: dict[JoinSide, pa.RecordBatch | None] = {}
        probes: dict[JoinSide, pa.RecordBatch | None] = {}
        for side in JoinSide:
            group = (number, side)
            batches = [*self.stored.pop(group, ()), *self.fresh.pop(group, ())]
            stores[side], probes[side] = _by_action(batches) if batches else (None, None)
        return RoundInput(stores, probes, self.commands.pop(number, None), self.clocks.pop(number, None))

    def scalars(self) -> dict[str, Any]:
        """Return the scalars for a state."""
        clocks = {str(number): clock for number, clock in sorted(self.clocks.items())}
        return {
            "ended": {str(unit): number for unit, number in sorted(self.ends.items())},
            "commands": to_json_value(dict(sorted(self.commands.items()))),
            **({"clocks": clocks} if clocks else {}),
        }

    def batches(self) -> tuple[pa.RecordBatch, ...]:
        """Return the batches for a state: earlier ones unchanged, new ones as one batch per round and side."""
        batches: list[pa.RecordBatch] = []
        for group in sorted({*self.stored, *self.fresh}):
            batches += self.stored.get(group, ())
            if new := self.fresh.get(group):
                number, side = group
                header = json.dumps([number, int(side)])
                batches.append(pa.concat_batches(new).replace_schema_metadata({_HEADER_KEY: header}))
        return tuple(batches)

    def _record_ends(self, ended: Sequence[EndedRound]) -> None:
        for each in ended:
            self.ends[each.unit] = max(each.round, self.ends.get(each.unit, 0))
            if each.watermark is not None:
                self.clocks[each.round] = each.watermark


def _by_action(batches: Sequence[pa.RecordBatch]) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
    """Return the tuples that are stored and those that are probed with, in their order; None without any."""
    batches = [batch.replace_schema_metadata(None) for batch in batches]
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    action_column = batch.schema.get_field_index(ACTION)
    actions = batch.column(action_column).to_numpy()
    tuples = batch.remove_column(action_column)
    return _with_mask(tuples, actions != Action.PROBE), _with_mask(tuples, actions != Action.STORE)


def _with_mask(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> pa.RecordBatch | None:
    if mask.all():
        return batch
    return batch.filter(pa.array(mask)) if mask.any() else None


def _read_batch(step_input: Input, message: Message) -> RoutedBatch:
    """Decode a router's message; raises `InvalidBatchError`."""
    try:
        return RoutedBatch.read(message.value)
    except (pa.ArrowInvalid, StopIteration, KeyError, TypeError, ValueError, DecodeError) as error:
        where = f"{step_input.stage}, task {step_input.unit}, offset {message.offset}"
        raise InvalidBatchError(
            f"{where}: {len(message.value)} bytes that are not a router message: {error}"
        ) from error
