"""Order of rows for count windows: rows are sorted and numbered once no earlier row can arrive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.windows.aggregation.partials import column_values, combine_partials
from springline.spark_jobs.streaming.windows.aggregation.row_partials import ORDER_COLUMNS
from springline.spark_jobs.streaming.windows.state.slices import Runs


def settled_rows(waiting: Runs, before: int | None) -> tuple[pa.RecordBatch | None, Runs]:
    """Return the rows with times before `before`, sorted, and the runs of the remaining rows."""
    if before is None or not any((column_values(run, "time") < before).any() for run in waiting):
        return None, waiting
    rows = pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]
    certain = column_values(rows, "time") < before
    earlier_rows = rows.filter(pa.array(certain))
    order = np.lexsort(tuple(column_values(earlier_rows, name) for name in reversed(ORDER_COLUMNS)))
    later_rows = rows.filter(pa.array(~certain))
    return earlier_rows.take(pa.array(order)), ((later_rows,) if later_rows.num_rows else ())


def pane_partials(rows: pa.RecordBatch, first: int, pane: int) -> pa.RecordBatch:
    """Return the partials of panes of rows; `first` is the number of the first row."""
    panes = (first + np.arange(rows.num_rows)) // pane * pane
    plain = pa.Table.from_batches([rows]).drop_columns(list(ORDER_COLUMNS))
    return combine_partials(plain.set_column(0, "slice", pa.array(panes)))
