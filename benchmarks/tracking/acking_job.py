"""A topology that does nothing but track: how many roots go through Kafka and Spark.

Each message of its topic stands for so many rows. The first stage is their spring, and sends the names of messages on;
each unit of the second one acks every row: by row, or the fold of a round at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches
from springline.spark_jobs.streaming.tracking.config import FIRST_PROCESSOR, FULL, RING, SPRING, TrackingConfig
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges
from springline.spark_jobs.streaming.tracking.ids import Ids, fold_value
from springline.spark_jobs.streaming.tracking.root_id import roots_of, unpack_root_id
from springline.spark_jobs.streaming.tracking.tuples import TupleBatch, TupleKind


@dataclass(frozen=True)
class AckingJob(BaseJob):
    """Tracks `rows` rows a message, `folded` or not; `units` units ack each of them."""

    name: str
    topic: str
    rows: int
    tracking: TrackingConfig | None = None
    folded: bool = True
    units: int = 2
    admitted: int = 20
    latest: bool = False
    backpressure: BackpressureConfig = DEFAULT_CONFIG

    @property
    def results(self) -> str:
        """Nothing comes there."""
        return ""

    @property
    def dead_letters(self) -> str:
        """Nothing comes there."""
        return ""

    def stages(self) -> tuple[StageSpec, ...]:
        """Spring, acking stage, ackers."""
        assert self.tracking is not None
        acks, names = self.tracking.acks, f"{self.name}.names"
        spring = StageSpec(
            "spring", f"{__name__}:make_spring", self.topic, self.units,
            {"rows": self.rows, "units": self.units, "folded": self.folded},
            sender_index=SPRING, downstream=names, acks=acks, max_messages_per_round=self.admitted,
            broadcast_files={"ring": RING},
            hold_files=(STOP, HOLD, FULL),
        )  # fmt: skip
        acking = StageSpec(
            "acking", f"{__name__}:make_acking", names, self.units, {"folded": self.folded}, stamped=True,
            sender_index=FIRST_PROCESSOR,
            acks=acks, broadcast_files={"ring": RING}, hold_files=(STOP,),
        )  # fmt: skip
        return spring, acking, self.tracking.acker_stage


def _edges(roots: Ids, unit: int) -> Ids:
    """What a unit acks of each root."""
    edges: Ids = roots * np.uint64(0x9E3779B97F4A7C15) + np.uint64(unit + 1)
    return edges


def make_spring(rows: int, units: int, folded: bool) -> Step:
    """The step that registers all rows, and names the messages."""

    def step(state: State, step_input: Input) -> Output:
        ackers, messages = AckOutput(step_input.round.broadcast_values["ring"]), list(step_input.messages)
        acks, folds, buffers = Acks(), list[Fold](), dict[int, list[pa.RecordBatch]]()
        for partition, (_, to) in step_input.ranges.items():
            offsets = np.array([each.offset for each in messages if each.partition == partition], np.int64)
            many, fold = np.full(offsets.size, rows), None
            own = roots_of(partition, offsets, np.ones_like(offsets))
            if folded and offsets.size:
                fold = Fold.registration(partition, RowRanges.of(offsets, many), 0)
                for unit in range(units):
                    fold = fold._replace(value=fold.value ^ fold_value(own, np.zeros_like(many), many, unit))
                folds.append(fold)
            if not folded:
                roots = roots_of(partition, offsets, many)
                values = np.bitwise_xor.reduce([_edges(roots, unit) for unit in range(units)])
                add_batches(acks, ackers.registrations(partition, offsets, many, values, registered_up_to=to))
            if offsets.size:
                names = TupleBatch(TupleKind.FOLDED, own, np.zeros_like(many), many, fold=fold.first if fold else 0)
                add_batches(buffers, {unit: [names.to_batch()] for unit in range(units)})
        if folded:
            acks = ackers.folds(folds, {partition: to for partition, (_, to) in step_input.ranges.items()})
        return Output(state, buffers, acks=acks, counts={"rows": rows * len(messages)})

    return step


def make_acking(folded: bool) -> Step:
    """The step that acks the rows of the messages named."""

    def step(state: State, step_input: Input) -> Output:
        ackers, acks, values, many = AckOutput(step_input.round.broadcast_values["ring"]), Acks(), dict[int, int](), 0
        for message in step_input.messages:
            tuples = TupleBatch.of(pa.ipc.open_stream(message.value).read_next_batch())
            if folded:
                added = fold_value(tuples.roots, tuples.firsts, tuples.counts, step_input.unit)
                values[tuples.fold] = values.get(tuples.fold, 0) ^ added
            else:
                places = [unpack_root_id(root) for root in tuples.roots.tolist()]
                offsets = np.array([place.offset for place in places])
                roots = roots_of(places[0].partition, offsets, tuples.counts)
                add_batches(acks, ackers.acks(roots, _edges(roots, step_input.unit), 1))
            many += int(tuples.counts.sum())
        if values:
            add_batches(acks, ackers.fold_acks(values))
        return Output(state, acks=acks, counts={"rows": many})

    return step
