"""Routers and tasks of a join without Spark and Kafka: lists of messages, cut into rounds as a test likes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.join.buckets import BUCKETS, bucket_of, part_of
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.task.migration import decode_copy_part
from springline.spark_jobs.streaming.join.task.store import Shape
from springline.spark_jobs.streaming.join.task.task import JoinTask
from springline.spark_jobs.streaming.join.wire import (
    ACTION,
    SEQ_HASHES,
    Action,
    Cutover,
    EpochCommands,
    JoinSide,
    RoutedBatch,
    StateMigration,
    first_seq,
)
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import EndedRound, Input, Output, Round, State
from springline.spark_jobs.streaming.sources.field_types import arrow_type

COPIES = "j.copies"
SMALL = Shape(segment=400, fanout=2, garbage=4)  # so that a few tuples make several segments
Row = Mapping[str, Any]
Store = Callable[[JoinSide, int, int], int]  # by side, key and seq: the unit that is to store a tuple


def rows_of(relation: Relation, rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch."""
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in relation.fields.items()])
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)


def in_bytes(output: Output) -> list[Any]:
    """All that counts of an output, as plain values; Arrow fills up a slice with what lies behind it, a copy not."""
    runs = {
        name: [arrow_bytes(batch.take(pa.array(np.arange(batch.num_rows)))) for batch in batches]
        for name, batches in output.state.runs.items()
    }
    sent = [[arrow_bytes(batch) for batch in batches] for batches in (output.results, output.feedback)]
    return [json.dumps(output.state.scalars), runs, sent, dict(output.counts), dict(output.gauges)]


def with_action(tuples: pa.RecordBatch, action: Action) -> pa.RecordBatch:
    """Tuples as a router sends them, all with one action."""
    actions = pa.array(np.full(tuples.num_rows, action, np.uint8))
    return tuples.set_column(tuples.schema.get_field_index(ACTION), ACTION, actions)


@dataclass
class Task:
    """A task: its log of messages and ends, how far it is, and its results."""

    number: int
    step: JoinTask
    log: list[Message | EndedRound] = field(default_factory=list)
    at: int = 0
    rounds: int = 0
    state: State = field(default_factory=State)
    pairs: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    gauges: Mapping[str, Any] = field(default_factory=dict)
    most: int = 0  # pairs of one round


class JoinTasks:
    """So many routers, and so many units of a join on tasks, of which there are as many if nothing is said.

    Rows are stored in the unit that `store` says, and every task is probed. With `keep`, routers send the `clock` with
    each round.
    """

    def __init__(
        self,
        condition: Condition,
        routers: int = 1,
        units: int = 1,
        most_pairs: int = 1_000_000,
        keep: float | None = None,
        tasks: int | None = None,
    ) -> None:
        self.condition = condition
        self.routers = routers
        self.keep = keep
        self.clock = 1.0
        self.most_pairs = most_pairs
        self.units = units
        self.copies: dict[int, list[bytes]] = defaultdict(list)
        self.tasks: list[Task] = []
        many = tasks or units
        self.tasks += [Task(task, self._make_task(many)) for task in range(many)]
        self.round = 0

    def _make_task(self, tasks: int) -> JoinTask:
        return JoinTask("j", self.condition.as_json(), COPIES, self.units, tasks, self.most_pairs, SMALL, self.keep)

    def route(
        self,
        rows: Sequence[Mapping[JoinSide, Sequence[Row]]],
        store: Store = lambda side, key, seq: 0,
        orders: EpochCommands | None = None,
        both: bool = False,
        interleaved: Callable[[list[list[Message | EndedRound]]], Iterable[Message | EndedRound]] | None = None,
    ) -> None:
        """A round: the rows of each router, by side. With `both`, they are stored and probed with where they lie."""
        self.round += 1
        clock = None if self.keep is None else self.clock
        logs: list[list[list[Message | EndedRound]]] = [[[] for _ in range(self.routers)] for _ in self.tasks]
        for router, sides in enumerate(rows):
            if orders is not None:
                for task in self.tasks:
                    self._send(logs[task.number][router], RoutedBatch(self.round, pa.record_batch({}), commands=orders))
            seq = first_seq(self.round, router)
            for side, side_rows in sides.items():
                tuples = self._tuples(side, side_rows, seq, store)
                seq += len(side_rows)
                self._spread(logs, router, side, tuples, both)
            for task in self.tasks:
                logs[task.number][router].append(EndedRound(router, self.round, clock))
        for task, parts in zip(self.tasks, logs, strict=True):
            in_turn = interleaved(parts) if interleaved else (each for part in parts for each in part)
            task.log += in_turn

    def _tuples(self, side: JoinSide, rows: Sequence[Row], seq: int, store: Store) -> pa.RecordBatch:
        batch = rows_of(self.condition.names.of(side), rows)
        keys, valid = self.condition.keys(side, batch)
        mask = valid & self.condition.filter(side, batch)
        seqs = seq + np.arange(batch.num_rows)
        units = [store(side, *place) for place in zip(keys.tolist(), seqs.tolist(), strict=True)]
        arrays = [pa.array(keys), pa.array(seqs), pa.array(units, pa.uint8()), pa.array(np.zeros(mask.size, np.uint8))]
        arrays += self.condition.carried(side, batch)
        return pa.RecordBatch.from_arrays(arrays, schema=self.condition.routed_schema(side)).filter(pa.array(mask))

    def _spread(self, logs: Any, router: int, side: JoinSide, tuples: pa.RecordBatch, both: bool) -> None:
        for task in self.tasks:
            log = logs[task.number][router]
            here = tuples.column(2).to_numpy() % len(self.tasks) == task.number
            stored, rest = tuples.filter(pa.array(here)), tuples.filter(pa.array(~here))
            # Two messages where there can be, so that none is relied on to be whole.
            half = stored.num_rows // 2
            for part in (stored.slice(0, half), stored.slice(half)):
                if part.num_rows:
                    self._send(
                        log, RoutedBatch(self.round, with_action(part, Action.BOTH if both else Action.STORE), side)
                    )
            for part in (rest,) if both else (tuples,):
                if part.num_rows:
                    self._send(log, RoutedBatch(self.round, with_action(part, Action.PROBE), side))

    def _send(self, log: list[Message | EndedRound], sent: RoutedBatch) -> None:
        log.append(Message(0, arrow_bytes(sent.to_batch())))

    def step(self, task: Task, upto: int | None = None) -> Output:
        """A round of the stage in one task: what is in its log up to a place."""
        upto = len(task.log) if upto is None else min(upto, len(task.log))
        entries, task.at = task.log[task.at : upto], max(upto, task.at)
        task.rounds += 1
        step_input = Input(
            "join", task.number, Round(1, task.rounds, float(task.rounds)),
            [each for each in entries if isinstance(each, Message)],
            ended_rounds=[each for each in entries if isinstance(each, EndedRound)],
            upstream_units=frozenset(range(self.routers)), read_topic=self._source,
        )  # fmt: skip
        output = task.step(task.state, step_input)
        repeated_output = self._make_task(len(self.tasks))(_reread(task.state), step_input)
        for one, other in zip(in_bytes(repeated_output), in_bytes(output), strict=True):
            assert one == other, "a step on a state that was read again comes out otherwise"
        task.state, task.gauges = output.state, output.gauges
        task.counts.update(output.counts)
        task.most = max(task.most, output.counts["pairs"])
        for batch in output.results:
            assert batch.schema.metadata == {b"query": b"j"}
            task.pairs.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        self.copies[task.number] += [arrow_bytes(batch) for batch in output.feedback]
        return output

    def finish(self) -> None:
        """Let every task take all of its log, and answer all that it has been asked."""
        for task in self.tasks:
            self.step(task)
            while task.gauges["pending"]["rounds"]:
                self.step(task)

    def gauges_of(self, unit: int) -> Mapping[str, Any]:
        """What the task of a unit reports of it: how many tuples of each side it stores, and have come to it."""
        gauges: Mapping[str, Any] = self.tasks[unit % len(self.tasks)].gauges["units"][str(unit)]
        return gauges

    @property
    def pairs(self) -> Counter[tuple[Any, ...]]:
        """All results so far."""
        return sum((task.pairs for task in self.tasks), Counter())

    def switch(self, piece: StateMigration) -> Cutover | None:
        """How to switch to the copy of a piece, if it is there."""
        copies = self.copies[piece.giver % len(self.tasks)]
        offsets = [at for at, value in enumerate(copies) if decode_copy_part(value)[0] == piece.id]
        return Cutover(piece, offsets[0], offsets[-1] + 1) if offsets else None

    def _source(self, topic: str, task: int, start: int, to: int) -> Iterator[Message]:
        assert topic == COPIES
        return (Message(at, self.copies[task][at]) for at in range(start, to))


def mask_of(piece: StateMigration, keys: npt.NDArray[np.int64], seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of some tuples of its side a piece means, in plain numpy."""
    mask = (keys >= piece.keys[0]) & (keys <= piece.keys[1]) & (seqs >= piece.seqs[0]) & (seqs <= piece.seqs[1])
    if piece.buckets:
        named = np.zeros(BUCKETS, np.bool_)
        named[list(piece.buckets)] = True
        mask &= named[bucket_of(keys, piece.block)]
    if piece.excluded_keys:
        mask &= ~np.isin(keys, np.array(piece.excluded_keys, np.int64))
    if piece.part != (0, SEQ_HASHES):
        parts = part_of(seqs, piece.salt)
        mask &= (parts >= piece.part[0]) & (parts < piece.part[1])
    return mask


def _reread(state: State) -> State:
    """A state as another process reads it from its files."""
    runs = {
        name: tuple(pa.ipc.open_stream(arrow_bytes(batch)).read_next_batch() for batch in batches)
        for name, batches in state.runs.items()
    }
    return replace(state, scalars=json.loads(json.dumps(state.scalars)), runs=runs)
