"""Steps in which tuples and acks are lost, doubled and delayed: each row by a chance that the round alone decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, State, Step
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.wire import AckMessage, MessageKind

DELAYED = "delayed"


@dataclass(frozen=True)
class Leaks:
    """The chances of a tuple to be lost, doubled or delayed by a round, and of an ack; none after the round `last`.

    The roots that were harmed are noted in the folder `noted`, if there is one: a file a round and kind of harm.
    """

    lost: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    seed: int = 0
    last: int = 1 << 40
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
        batches = self._leaked(batches, drawn, late, step_input.round.number)
        batches += [batch for batch in before if not _is_ack(batch)]
        output = self.step(inner, replace(step_input, messages=[Message(0, arrow_bytes(batch)) for batch in batches]))
        acks = {unit: self._leaked(sent, drawn, late, step_input.round.number) for unit, sent in output.acks.items()}
        for batch in before:
            if _is_ack(batch):
                acks.setdefault(_acker_of(batch), []).append(batch)
        for what, roots in self._harmed.items() if self.leaks.noted else ():
            place = f"{step_input.unit}-{step_input.round.number}.{what}"
            np.save(Path(self.leaks.noted) / place, np.concatenate(roots))
        runs = {**output.state.runs, **({DELAYED: tuple(late)} if late else {})}
        return replace(output, state=State(output.state.scalars, runs), acks=acks)

    def _leaked(
        self, batches: Sequence[pa.RecordBatch], drawn: np.random.Generator, late: list[pa.RecordBatch], number: int
    ) -> list[pa.RecordBatch]:
        if number > self.leaks.last:
            return list(batches)
        leaked_batches = []
        for batch in batches:
            chances = drawn.random(batch.num_rows)
            if _is_ack(batch) and AckMessage.read(arrow_bytes(batch)).kind is not MessageKind.ACKS:
                leaked_batches.append(batch)  # what registers is part of what a spring has read
                continue
            lost = chances < self.leaks.lost
            delayed = (chances >= self.leaks.lost) & (chances < self.leaks.lost + self.leaks.delayed)
            doubled = chances > 1 - self.leaks.doubled
            roots = batch.column("root").to_numpy()
            for what, rows in (("lost", lost), ("late", delayed), ("doubled", doubled)):
                self._harmed.setdefault(what, []).append(roots[rows])
            indices = np.repeat(np.arange(batch.num_rows), np.where(lost | delayed, 0, np.where(doubled, 2, 1)))
            leaked_batches.append(batch.take(pa.array(indices)))
            if delayed.any():
                late.append(batch.filter(pa.array(delayed)))
        return [batch for batch in leaked_batches if batch.num_rows]


def _is_ack(batch: pa.RecordBatch) -> bool:
    return b"header" in (batch.schema.metadata or {})


def _acker_of(batch: pa.RecordBatch) -> int:
    """The acker that a batch of acks was for."""
    return AckerRing.of(AckMessage.read(arrow_bytes(batch)).ackers).owner(batch.column("root")[0].as_py())
