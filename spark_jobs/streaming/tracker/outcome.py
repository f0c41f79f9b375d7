"""The last stage of a tracker: tells whoever asked what became of each root, as lines of JSON.

{"root": 1234, "attempt": 1, "outcome": "finished"}    every edge of its tree was processed
{"root": 1235, "attempt": 1, "outcome": "failed"}      not in time: whether it is sent again is its spring's to say

Records that are another acker's by now pass through here on their way to it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import Ackers, Acks, extend
from springline.spark_jobs.streaming.tracking.replay.replay import told_in
from springline.spark_jobs.streaming.tracking.wire import Kind

FINISHED, FAILED = "finished", "failed"
_SCHEMA = pa.schema([("root", pa.uint64()), ("attempt", pa.uint8()), ("outcome", pa.string())])
_WORDS = {Kind.DONE: FINISHED, Kind.GONE: FAILED}


class Outcome:
    """The step."""

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        ackers = Ackers(given.round.versions["ring"])
        acks: Acks = {}
        results: list[pa.RecordBatch] = []
        counts = dict.fromkeys(_WORDS.values(), 0)
        for told in told_in(given):
            if told.kind is Kind.RECORDS:
                extend(acks, ackers.records(told.items()))
                continue
            word = _WORDS[told.kind]
            words = pa.array(np.full(told.batch.num_rows, word), pa.string())
            columns = [told.batch.column("root"), told.batch.column("attempt"), words]
            results.append(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
            counts[word] += told.batch.num_rows
        return Output(state, results=results, counts=counts, acks=acks)
