"""A topology that does nothing but track: how many acks go through Kafka and Spark.

Each message of its topic stands for so many rows. The first stage is their spring, and sends the names of messages on;
each unit of the second one acks every row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches, roots_of
from springline.spark_jobs.streaming.tracking.config import FIRST_PROCESSOR, FULL, RING, SPRING, TrackingConfig
from springline.spark_jobs.streaming.tracking.ids import Ids

_NAMES = pa.schema([("partition", pa.int64()), ("offset", pa.int64())])


@dataclass(frozen=True)
class AckingJob(BaseJob):
    """Tracks `rows` rows a message; `units` units ack each of them."""

    name: str
    topic: str
    tracking: TrackingConfig
    rows: int
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

    def stages(self, units: int) -> tuple[StageSpec, ...]:
        """Spring, acking stage, ackers."""
        acks, names = self.tracking.acks, f"{self.name}.names"
        spring = StageSpec(
            "spring", f"{__name__}:make_spring", self.topic, units, {"rows": self.rows, "units": self.units},
            sender_index=SPRING, downstream=names, acks=acks, max_messages_per_round=self.admitted,
            broadcast_files={"ring": RING},
            hold_files=(STOP, HOLD, FULL),
        )  # fmt: skip
        acking = StageSpec(
            "acking", f"{__name__}:make_acking", names, self.units, {"rows": self.rows}, stamped=True,
            sender_index=FIRST_PROCESSOR,
            acks=acks, broadcast_files={"ring": RING}, hold_files=(STOP,),
        )  # fmt: skip
        return spring, acking, self.tracking.acker_stage


def _edges(roots: Ids, unit: int) -> Ids:
    """What a unit acks of each root."""
    edges: Ids = roots * np.uint64(0x9E3779B97F4A7C15) + np.uint64(unit + 1)
    return edges


def make_spring(rows: int, units: int):  # type: ignore[no-untyped-def]
    def step(state: State, step_input: Input) -> Output:
        offsets = np.array([message.offset for message in step_input.messages], np.int64)
        many = np.full(offsets.size, rows)
        roots = roots_of(step_input.unit, offsets, many)
        values = np.bitwise_xor.reduce([_edges(roots, unit) for unit in range(units)])
        acks = AckOutput(step_input.round.versions["ring"]).registrations(
            step_input.unit, offsets, many, values, step_input.to
        )
        names = pa.RecordBatch.from_arrays([np.full(offsets.size, step_input.unit), offsets], schema=_NAMES)
        buffers = {unit: [names] for unit in range(units)} if offsets.size else {}
        return Output(state, buffers, acks=acks, counts={"rows": roots.size})

    return step


def make_acking(rows: int):  # type: ignore[no-untyped-def]
    def step(state: State, step_input: Input) -> Output:
        ackers, acks, many = AckOutput(step_input.round.versions["ring"]), Acks(), 0
        for message in step_input.messages:
            partitions, offsets = pa.ipc.open_stream(message.value).read_next_batch().columns
            roots = roots_of(partitions[0].as_py(), offsets.to_numpy(), np.full(len(offsets), rows))
            add_batches(acks, ackers.acks(roots, _edges(roots, step_input.unit), 1))
            many += roots.size
        return Output(state, acks=acks, counts={"rows": many})

    return step
