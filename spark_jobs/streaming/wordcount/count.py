"""The second stage: counts words, and tells the counts that have changed every few seconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.runtime.step import Input, Output, State
from springline.spark_jobs.streaming.tracking.ack_output import Ackers, Acks, extend
from springline.spark_jobs.streaming.tracking.dedup import Remembered, marks_of
from springline.spark_jobs.streaming.tracking.ids import root_edges
from springline.spark_jobs.streaming.wordcount.split import ATTEMPT

_COUNTS = pa.schema([pa.field("word", pa.binary(), nullable=False), pa.field("count", pa.int64(), nullable=False)])
_RUNS = 8  # of counts, before they are added up


class Count:
    """The step; with `once`, a word that came before is not counted again. Counts are told every so many seconds.

    Without tracking, nobody is told which words were counted.
    """

    def __init__(self, once: bool, every: float, tracked: bool = True) -> None:
        self._once = once
        self._tracked = tracked
        self._every = every
        self._kept: dict[int, tuple[list[int], Remembered]] = {}

    def __call__(self, state: State, given: Input) -> Output:
        """One round."""
        order = [given.round.incarnation, given.round.number]
        ackers = Ackers(given.round.versions["ring"]) if self._tracked else None
        known = self._remembered(state, given.unit)
        marks = marks_of(given.round.versions) if self._once else None
        batches = [pa.ipc.open_stream(message.value).read_next_batch() for message in given.messages]
        fresh: list[pa.RecordBatch] = []
        acks: Acks = {}
        for batch in batches:
            attempt = int(batch.schema.metadata[ATTEMPT])
            roots, ids = (batch.column(name).to_numpy() for name in ("root", "id"))
            if ackers is not None:
                extend(acks, ackers.acks(roots, root_edges(ids, attempt), attempt))
            new = known.fresh(roots, ids, marks) if marks is not None else np.ones(ids.size, np.bool_)
            fresh.append(batch if new.all() else batch.filter(pa.array(new)))
        after = self._counted(state, fresh, given)
        runs = dict(after.runs)
        if marks is not None:
            roots, ids = (_joined(fresh, name) for name in ("root", "id"))
            known = known.after(roots, ids, marks)
            runs["known"] = known.runs
            self._kept[given.unit] = (order, known)
        results, scalars, runs = self._tell(after, runs, given)
        words = sum(batch.num_rows for batch in batches)
        counts = {"rows": words, "doubled": words - sum(batch.num_rows for batch in fresh)}
        return Output(State({**scalars, "order": order}, runs), results=results, counts=counts, acks=acks)

    def _remembered(self, state: State, unit: int) -> Remembered:
        """Taken out: an attempt that fails must not leave behind what others go on from."""
        kept = self._kept.pop(unit, None)
        if kept is not None and kept[0] == state.scalars.get("order"):
            return kept[1]
        return Remembered.of(state.runs.get("known", ()))

    def _counted(self, state: State, fresh: Sequence[pa.RecordBatch], given: Input) -> State:
        """With the words of this round among those that are not told yet."""
        if not any(batch.num_rows for batch in fresh):
            return state
        words = pa.concat_arrays([batch.column("word") for batch in fresh])
        counted = pc.value_counts(words)
        batch = pa.RecordBatch.from_arrays([counted.field("values"), counted.field("counts")], schema=_COUNTS)
        changed = (*state.runs.get("changed", ()), batch)
        return State(state.scalars, {**state.runs, "changed": (_sum(changed),) if len(changed) > _RUNS else changed})

    def _tell(
        self, state: State, runs: dict[str, tuple[pa.RecordBatch, ...]], given: Input
    ) -> tuple[list[pa.RecordBatch], dict[str, object], dict[str, tuple[pa.RecordBatch, ...]]]:
        """The counts that have changed, once it is time."""
        told_at = float(state.scalars.get("told", 0.0))
        changed = runs.get("changed", ())
        if not changed or given.round.clock < told_at + self._every:
            return [], {**state.scalars, "told": told_at}, runs
        news = _sum(changed)
        total = _sum((*runs.get("counts", ()), news))
        told = total.filter(pc.is_in(total.column("word"), value_set=news.column("word")))
        words = told.column("word").cast(pa.string())
        schema = pa.schema({"word": pa.string(), "count": pa.int64()}, metadata={"query": "counts"})
        result = pa.RecordBatch.from_arrays([words, told.column("count")], schema=schema)
        return [result], {**state.scalars, "told": given.round.clock}, {**runs, "changed": (), "counts": (total,)}


def _joined(batches: Sequence[pa.RecordBatch], name: str) -> np.ndarray:
    columns = [batch.column(name).to_numpy() for batch in batches]
    return np.concatenate(columns) if columns else np.empty(0, np.uint64)


def _sum(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Counts added up, by word."""
    table = pa.Table.from_batches(batches, _COUNTS).group_by("word", use_threads=False).aggregate([("count", "sum")])
    table = table.select(["word", "count_sum"]).sort_by("word").rename_columns(["word", "count"]).combine_chunks()
    found = table.cast(_COUNTS).to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=_COUNTS)
