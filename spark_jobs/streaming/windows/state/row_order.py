"""Rows for windows that count rows: put in order when no earlier one can come, and numbered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.windows.aggregation.partials import added_up, column
from springline.spark_jobs.streaming.windows.aggregation.row_partials import PLACE
from springline.spark_jobs.streaming.windows.state.slices import Runs


def settled(waiting: Runs, before: int | None) -> tuple[pa.RecordBatch | None, Runs]:
    """The rows of times before `before`, in order, and what goes on waiting."""
    if before is None or not any((column(run, "time") < before).any() for run in waiting):
        return None, waiting
    rows = pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]
    certain = column(rows, "time") < before
    found = rows.filter(pa.array(certain))
    order = np.lexsort(tuple(column(found, name) for name in reversed(PLACE)))
    left = rows.filter(pa.array(~certain))
    return found.take(pa.array(order)), ((left,) if left.num_rows else ())


def numbered(rows: pa.RecordBatch, first: int, pane: int) -> pa.RecordBatch:
    """The partials of panes of rows, of which `first` is the number of the first."""
    panes = (first + np.arange(rows.num_rows)) // pane * pane
    plain = pa.Table.from_batches([rows]).drop_columns(list(PLACE))
    return added_up(plain.set_column(0, "slice", pa.array(panes)))
