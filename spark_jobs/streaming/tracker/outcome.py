"""The last stage of a tracker: emits the outcome of each root, as lines of JSON.

{"root": 1234, "attempt": 1, "outcome": "finished"}    every edge of its tree was processed
{"root": 1235, "attempt": 1, "outcome": "failed"}      timed out: its spring decides whether it is sent again

Tracking records that now belong to another acker are forwarded to it by this stage.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches
from springline.spark_jobs.streaming.tracking.replay.replay import ack_messages
from springline.spark_jobs.streaming.tracking.wire import MessageKind

FINISHED, FAILED = "finished", "failed"
_SCHEMA = pa.schema([("root", pa.uint64()), ("attempt", pa.uint8()), ("outcome", pa.string())])
_OUTCOMES = {MessageKind.COMPLETED: FINISHED, MessageKind.FAILED: FAILED}


class OutcomeStep:
    """The step: emits finished and failed attempts as results, and forwards tracking records."""

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        ack_output = AckOutput(step_input.round.broadcast_values["ring"])
        acks: Acks = {}
        results: list[pa.RecordBatch] = []
        counts = dict.fromkeys(_OUTCOMES.values(), 0)
        for message in ack_messages(step_input):
            if message.kind is MessageKind.RECORDS:
                add_batches(acks, ack_output.records(message.records()))
                continue
            outcome = _OUTCOMES[message.kind]
            outcome_column = pa.array(np.full(message.batch.num_rows, outcome), pa.string())
            columns = [message.batch.column("root"), message.batch.column("attempt"), outcome_column]
            results.append(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
            counts[outcome] += message.batch.num_rows
        return Output(state, results=results, counts=counts, acks=acks, timer=None)
