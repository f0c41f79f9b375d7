"""The second stage: counts words, and emits the counts that have changed every few seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches
from springline.spark_jobs.streaming.tracking.applied_tuples import APPLIED, AppliedTuples, read_low_watermarks
from springline.spark_jobs.streaming.tracking.ids import fold_value, row_values
from springline.spark_jobs.streaming.tracking.tuples import TupleBatch, TupleKind

_COUNTS = pa.schema([pa.field("word", pa.binary(), nullable=False), pa.field("count", pa.int64(), nullable=False)])
_MAX_RUNS = 8  # of counts, before they are merged


class Count:
    """The step; with `exactly_once`, a retried word is not counted twice. It emits counts every `emit_interval`
    seconds.

    Without `tracked`, it sends no acknowledgements to ackers.
    """

    def __init__(self, exactly_once: bool, emit_interval: float, tracked: bool = True) -> None:
        self._exactly_once = exactly_once
        self._tracked = tracked
        self._emit_interval = emit_interval

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        batches = [pa.ipc.open_stream(message.value).read_next_batch() for message in step_input.messages]
        if not self._tracked:
            arrays = [batch.column("word") for batch in batches]
            counts = {"rows": sum(map(len, arrays)), "doubled": 0}
            results, after = self._emit_counts(self._add_words(state, arrays), step_input)
            return Output(after, results=results, counts=counts, timer=None)
        low_watermarks = read_low_watermarks(step_input.round.broadcast_values)
        applied = AppliedTuples(low_watermarks, state.runs.get(APPLIED, ()), state.scalars.get(APPLIED))
        receiver = _Receiver(applied, AckOutput(step_input.round.broadcast_values["ring"]), step_input.unit)
        arrays = [receiver.receive(batch, self._exactly_once) for batch in batches]
        results, after = self._emit_counts(self._add_words(state, arrays), step_input)
        after = State({**after.scalars, APPLIED: applied.last()}, {**after.runs, APPLIED: applied.runs()})
        return Output(after, results=results, counts=receiver.counts, acks=receiver.acks(), timer=None)

    def _add_words(self, state: State, arrays: Sequence[pa.Array]) -> State:
        """Return the state with the words of this round added to the increments that were not emitted yet."""
        if not any(map(len, arrays)):
            return state
        value_counts = pc.value_counts(pa.concat_arrays(arrays))
        batch = pa.RecordBatch.from_arrays([value_counts.field("values"), value_counts.field("counts")], schema=_COUNTS)
        changed = (*state.runs.get("changed", ()), batch)
        return State(
            state.scalars, {**state.runs, "changed": (_sum(changed),) if len(changed) > _MAX_RUNS else changed}
        )

    def _emit_counts(self, state: State, step_input: Input) -> tuple[list[pa.RecordBatch], State]:
        """Emit the counts that have changed, if the interval has passed."""
        emitted_at = float(state.scalars.get("emitted_at", 0.0))
        changed = state.runs.get("changed", ())
        if not changed or step_input.round.clock < emitted_at + self._emit_interval:
            return [], State({**state.scalars, "emitted_at": emitted_at}, state.runs)
        increments = _sum(changed)
        total = _sum((*state.runs.get("counts", ()), increments))
        changed_counts = total.filter(pc.is_in(total.column("word"), value_set=increments.column("word")))
        word_array = changed_counts.column("word").cast(pa.string())
        schema = pa.schema({"word": pa.string(), "count": pa.int64()}, metadata={"query": "counts"})
        result = pa.RecordBatch.from_arrays([word_array, changed_counts.column("count")], schema=schema)
        return [result], State(
            {**state.scalars, "emitted_at": step_input.round.clock}, {**state.runs, "changed": (), "counts": (total,)}
        )


class _Receiver:
    """Receives the tracked words of a round: which are to be counted, and the acks."""

    def __init__(self, applied: AppliedTuples, ack_output: AckOutput, unit: int) -> None:
        self._applied = applied
        self._ack_output = ack_output
        self._unit = unit
        self._folds: dict[int, int] = {}
        self._acks: Acks = {}
        self.counts = Counter(rows=0, doubled=0)

    def receive(self, batch: pa.RecordBatch, exactly_once: bool) -> pa.Array:
        """Return the words of a batch that are to be counted: all, or with `exactly_once` those that are new."""
        tuples = TupleBatch.of(batch)
        if tuples.kind is TupleKind.AUDIT:
            self._ack_rows(tuples, self._applied.find(tuples.roots, tuples.firsts, tuples.counts))
            return pa.array([], pa.binary())
        is_new = self._applied.add(tuples.roots, tuples.firsts, tuples.counts)
        if tuples.kind is TupleKind.RETRIED:
            self._ack_rows(tuples, None)
        elif is_new is None or is_new.any():
            value = fold_value(tuples.roots, tuples.firsts, tuples.counts, self._unit, is_new)
            self._folds[tuples.fold] = self._folds.get(tuples.fold, 0) ^ value
        self.counts["rows"] += len(tuples.values)
        if is_new is None or not exactly_once:
            return tuples.values
        self.counts["doubled"] += int((~is_new).sum())
        return tuples.values.filter(pa.array(is_new))

    def acks(self) -> Acks:
        """Return the acks of all batches."""
        if self._folds:
            add_batches(self._acks, self._ack_output.fold_acks(self._folds))
        return self._acks

    def _ack_rows(self, tuples: TupleBatch, applied: np.ndarray | None) -> None:
        """Ack tuples by root: those that were applied, or all."""
        values = row_values(tuples.roots, tuples.firsts, tuples.counts, self._unit, tuples.attempt, applied)
        some = values != 0
        add_batches(self._acks, self._ack_output.acks(tuples.roots[some], values[some], tuples.attempt))


def _sum(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Sum counts by word."""
    table = pa.Table.from_batches(batches, _COUNTS).group_by("word", use_threads=False).aggregate([("count", "sum")])
    table = table.select(["word", "count_sum"]).sort_by("word").rename_columns(["word", "count"]).combine_chunks()
    sums = table.cast(_COUNTS).to_batches()
    return sums[0] if sums else pa.RecordBatch.from_pylist([], schema=_COUNTS)
