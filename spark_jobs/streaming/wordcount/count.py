"""The second stage: counts words, and emits the counts that have changed every few seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import AckOutput, Acks, add_batches
from springline.spark_jobs.streaming.tracking.dedup import DedupState, read_low_watermarks
from springline.spark_jobs.streaming.tracking.ids import root_edges
from springline.spark_jobs.streaming.wordcount.split import ATTEMPT

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
        self._dedup_by_unit: dict[int, tuple[list[int], DedupState]] = {}

    def __call__(self, state: State, step_input: Input) -> Output:
        """Process one round."""
        order = [step_input.round.incarnation, step_input.round.number]
        ackers = AckOutput(step_input.round.versions["ring"]) if self._tracked else None
        dedup_state = self._take_dedup_state(state, step_input.unit)
        marks = read_low_watermarks(step_input.round.versions) if self._exactly_once else None
        batches = [pa.ipc.open_stream(message.value).read_next_batch() for message in step_input.messages]
        fresh: list[pa.RecordBatch] = []
        acks: Acks = {}
        for batch in batches:
            attempt = int(batch.schema.metadata[ATTEMPT])
            roots, ids = (batch.column(name).to_numpy() for name in ("root", "id"))
            if ackers is not None:
                add_batches(acks, ackers.acks(roots, root_edges(ids, attempt), attempt))
            is_new = dedup_state.add_new(roots, ids, marks) if marks is not None else np.ones(ids.size, np.bool_)
            fresh.append(batch if is_new.all() else batch.filter(pa.array(is_new)))
        after = self._add_words(state, fresh, step_input)
        runs = dict(after.runs)
        if marks is not None:
            roots, ids = (_joined(fresh, name) for name in ("root", "id"))
            dedup_state = dedup_state.with_applied(roots, ids, marks)
            runs["known"] = dedup_state.runs
            self._dedup_by_unit[step_input.unit] = (order, dedup_state)
        results, scalars, runs = self._emit_counts(after, runs, step_input)
        word_count = sum(batch.num_rows for batch in batches)
        counts = {"rows": word_count, "doubled": word_count - sum(batch.num_rows for batch in fresh)}
        return Output(State({**scalars, "order": order}, runs), results=results, counts=counts, acks=acks)

    def _take_dedup_state(self, state: State, unit: int) -> DedupState:
        """Remove and return the deduplication state, so that a failed attempt leaves nothing to the next one."""
        entry = self._dedup_by_unit.pop(unit, None)
        if entry is not None and entry[0] == state.scalars.get("order"):
            return entry[1]
        return DedupState.of(state.runs.get("known", ()))

    def _add_words(self, state: State, fresh: Sequence[pa.RecordBatch], step_input: Input) -> State:
        """Return the state with the words of this round added to the increments that were not emitted yet."""
        if not any(batch.num_rows for batch in fresh):
            return state
        word_array = pa.concat_arrays([batch.column("word") for batch in fresh])
        value_counts = pc.value_counts(word_array)
        batch = pa.RecordBatch.from_arrays([value_counts.field("values"), value_counts.field("counts")], schema=_COUNTS)
        changed = (*state.runs.get("changed", ()), batch)
        return State(
            state.scalars, {**state.runs, "changed": (_sum(changed),) if len(changed) > _MAX_RUNS else changed}
        )

    def _emit_counts(
        self, state: State, runs: dict[str, tuple[pa.RecordBatch, ...]], step_input: Input
    ) -> tuple[list[pa.RecordBatch], dict[str, object], dict[str, tuple[pa.RecordBatch, ...]]]:
        """Emit the counts that have changed, if the interval has passed."""
        emitted_at = float(state.scalars.get("emitted_at", 0.0))
        changed = runs.get("changed", ())
        if not changed or step_input.round.clock < emitted_at + self._emit_interval:
            return [], {**state.scalars, "emitted_at": emitted_at}, runs
        increments = _sum(changed)
        total = _sum((*runs.get("counts", ()), increments))
        changed_counts = total.filter(pc.is_in(total.column("word"), value_set=increments.column("word")))
        word_array = changed_counts.column("word").cast(pa.string())
        schema = pa.schema({"word": pa.string(), "count": pa.int64()}, metadata={"query": "counts"})
        result = pa.RecordBatch.from_arrays([word_array, changed_counts.column("count")], schema=schema)
        return (
            [result],
            {**state.scalars, "emitted_at": step_input.round.clock},
            {**runs, "changed": (), "counts": (total,)},
        )


def _joined(batches: Sequence[pa.RecordBatch], name: str) -> np.ndarray:
    columns = [batch.column(name).to_numpy() for batch in batches]
    return np.concatenate(columns) if columns else np.empty(0, np.uint64)


def _sum(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Sum counts by word."""
    table = pa.Table.from_batches(batches, _COUNTS).group_by("word", use_threads=False).aggregate([("count", "sum")])
    table = table.select(["word", "count_sum"]).sort_by("word").rename_columns(["word", "count"]).combine_chunks()
    sums = table.cast(_COUNTS).to_batches()
    return sums[0] if sums else pa.RecordBatch.from_pylist([], schema=_COUNTS)
