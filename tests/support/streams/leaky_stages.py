"""Steps in which tuples and acks are lost, doubled and delayed: each row by a chance that the round alone decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.tracking.folds import fold_owners
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.root_id import unpack_root_id
from springline.spark_jobs.streaming.tracking.tuples import TupleBatch, TupleKind
from springline.spark_jobs.streaming.tracking.wire import AckMessage
from springline.spark_jobs.streaming.wordcount.split import line_replayer

DELAYED = "delayed"
NO_UNIT = 1 << 20


@dataclass(frozen=True)
class Leaks:
    """The chances of a tuple to be lost, doubled or delayed by a round, and of an ack; none after the clock `last`.

    What was harmed is noted in the folder `noted`, if there is one: a file a round and kind of harm, with a row of
    three numbers each. These are a root, `NO_UNIT`, and nothing; or, of a first attempt, a message, the receiving unit,
    and the tuple's number among those of the message for it.
    """

    lost: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    seed: int = 0
    last: float = 1e12
    noted: str = ""


@dataclass
class Leaky:
    """A step behind leaks: of the tuples that it gets, and of the acks that it sends."""

    step: Step
    leaks: Leaks
    _harmed: dict[str, list[Any]] = field(default_factory=dict)

    def __call__(self, state: State, step_input: Input) -> Output:
        """One round."""
        self._harmed.clear()
        drawn = np.random.default_rng(
            [self.leaks.seed, step_input.unit, step_input.round.number, len(step_input.stage)]
        )
        before = state.runs.get(DELAYED, ())
        inner = State(state.scalars, {name: runs for name, runs in state.runs.items() if name != DELAYED})
        late: list[pa.RecordBatch] = []
        batches = [pa.ipc.open_stream(message.value).read_next_batch() for message in step_input.messages]
        batches = self._leaked(batches, drawn, late, step_input)
        batches += [batch for batch in before if not _is_ack(batch)]
        output = self.step(inner, replace(step_input, messages=[Message(0, arrow_bytes(batch)) for batch in batches]))
        acks = {acker: self._leaked(sent, drawn, late, step_input) for acker, sent in output.acks.items()}
        for batch in before:
            if _is_ack(batch):
                acks.setdefault(_acker_of(batch), []).append(batch)
        for what, roots in self._harmed.items() if self.leaks.noted else ():
            place = f"{step_input.unit}-{step_input.round.number}.{what}"
            np.save(Path(self.leaks.noted) / place, np.concatenate(roots))
        runs = {**output.state.runs, **({DELAYED: tuple(late)} if late else {})}
        timer = 0.0 if late else output.timer
        return replace(output, state=State(output.state.scalars, runs), acks=acks, timer=timer)

    def _leaked(
        self, batches: Sequence[pa.RecordBatch], drawn: np.random.Generator, late: list[pa.RecordBatch],
        step_input: Input,
    ) -> list[pa.RecordBatch]:  # fmt: skip
        if step_input.round.clock > self.leaks.last:
            return list(batches)
        unit = step_input.unit
        leaked_batches = []
        for batch in batches:
            is_ack = _is_ack(batch)
            if not is_ack and TupleBatch.of(batch).kind is TupleKind.AUDIT:
                leaked_batches.append(batch)  # no tuple, but what the stage that sends again asks
                continue
            chances = drawn.random(batch.num_rows if is_ack else int(TupleBatch.of(batch).counts.sum()))
            lost = chances < self.leaks.lost
            delayed = (chances >= self.leaks.lost) & (chances < self.leaks.lost + self.leaks.delayed)
            doubled = chances > 1 - self.leaks.doubled
            names = _names_of_acks(batch) if is_ack else _names_of_tuples(TupleBatch.of(batch), unit)
            for what, rows in (("lost", lost), ("late", delayed), ("doubled", doubled)):
                self._harmed.setdefault(what, []).append(names[rows[: len(names)]])
            indices = np.repeat(np.arange(chances.size), np.where(lost | delayed, 0, np.where(doubled, 2, 1)))
            take = _take_rows if is_ack else _take_tuples
            leaked_batches.append(take(batch, indices))
            if delayed.any():
                late.append(take(batch, np.flatnonzero(delayed)))
        return [batch for batch in leaked_batches if batch.num_rows]


def _names_of_acks(batch: pa.RecordBatch) -> np.ndarray:
    """The roots of acks, as names; those of folds have none: if one is lost, an audit makes up for it."""
    roots = batch.column("root").to_numpy() if "root" in batch.schema.names else np.empty(0, np.uint64)
    return _names(roots, NO_UNIT, np.zeros(roots.size))


def _names_of_tuples(tuples: TupleBatch, unit: int) -> np.ndarray:
    """The name of each tuple: its root; or its message, the unit that receives it, and its number there."""
    rows = np.repeat(np.arange(tuples.roots.size), tuples.counts)
    starts = np.cumsum(tuples.counts) - tuples.counts
    numbers = tuples.firsts[rows] + np.arange(rows.size) - starts[rows]
    receiver = unit if tuples.kind is TupleKind.FOLDED else NO_UNIT
    return _names(tuples.roots[rows], receiver, numbers)


def _names(roots: np.ndarray, receiver: int, numbers: np.ndarray) -> np.ndarray:
    """Three columns of one type: an id of a partition after the second has more bits than a float."""
    return np.column_stack([roots, np.full(roots.size, receiver, np.uint64), numbers.astype(np.uint64)])


def roots_of_names(names: np.ndarray, texts: Mapping[tuple[int, int], bytes], units: int) -> set[int]:
    """The roots of what was harmed, by the messages of the source, by partition and offset."""
    roots = set(names[names[:, 1] == NO_UNIT, 0].tolist())
    emitting = line_replayer("", units)._emit
    tuples_by_message: dict[int, Mapping[int, TupleBatch]] = {}
    for message, unit, number in names[names[:, 1] != NO_UNIT].tolist():
        if message not in tuples_by_message:
            place = unpack_root_id(message)
            text = texts[place.partition, place.offset]
            buffers = emitting(place.partition, Message(place.offset, text), range(len(text.splitlines())), 1).buffers
            tuples_by_message[message] = {to: TupleBatch.of(*batches) for to, batches in buffers.items()}
        tuples = tuples_by_message[message][unit]
        roots.add(int(tuples.roots[np.searchsorted(tuples.firsts, number, "right") - 1]))
    return roots


def _take_rows(batch: pa.RecordBatch, indices: np.ndarray) -> pa.RecordBatch:
    return batch.take(pa.array(indices))


def _take_tuples(batch: pa.RecordBatch, indices: np.ndarray) -> pa.RecordBatch:
    """The batch with some of its tuples, each of which keeps its number: those that follow each other share a row."""
    tuples = TupleBatch.of(batch)
    rows = np.repeat(np.arange(tuples.roots.size), tuples.counts)[indices]
    starts = np.cumsum(tuples.counts) - tuples.counts
    numbers = tuples.firsts[rows] + indices - starts[rows]
    cuts = np.flatnonzero((np.diff(rows, prepend=-1) != 0) | (np.diff(numbers, prepend=-2) != 1))
    return tuples._replace(
        roots=tuples.roots[rows[cuts]], firsts=numbers[cuts], counts=np.diff(cuts, append=indices.size),
        values=tuples.values.take(pa.array(indices)),
    ).to_batch()  # fmt: skip


def _is_ack(batch: pa.RecordBatch) -> bool:
    return b"header" in (batch.schema.metadata or {})


def _acker_of(batch: pa.RecordBatch) -> int:
    """The acker that a batch of acks was for."""
    ring = AckerRing.of(AckMessage.read(arrow_bytes(batch)).ackers)
    if "fold" in batch.schema.names:
        return int(fold_owners(ring, batch.column("fold").to_numpy()[:1])[0])
    return ring.owner(batch.column("root")[0].as_py())
