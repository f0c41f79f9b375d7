"""From the measures of a window's groups to the rows that a query asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.sql.expressions import ARROW
from springline.spark_jobs.streaming.sql.windowing import Rows
from springline.spark_jobs.streaming.windows.aggregation.partials import column
from springline.spark_jobs.streaming.windows.aggregation.sketches import estimate
from springline.spark_jobs.streaming.windows.measures import Aggregate, Measure, rest
from springline.spark_jobs.streaming.windows.query import Query


def finished(query: Query, groups: pa.RecordBatch, keys: list[str], begin: int, end: int) -> pa.RecordBatch:
    """The results of one window: its query and bounds, then the columns of SELECT.

    `keys` are the columns of `groups` that hold the query's keys. The bounds of a window of rows are numbers of rows.
    """
    rows = groups.num_rows
    kind = pa.int64() if isinstance(query.window, Rows) else ARROW["time"]
    bounds = {"window_start": begin, "window_end": end}
    columns: dict[str, pa.Array] = {name: pa.repeat(pa.scalar(at, kind), rows) for name, at in bounds.items()}
    columns |= {f"$k{index}": groups.column(name) for index, name in enumerate(keys)}
    columns |= {f"$a{index}": _value(aggregate, groups) for index, aggregate in enumerate(query.aggregates)}
    found = [pa.repeat(pa.scalar(query.name), rows), columns["window_start"], columns["window_end"]]
    found += [selected.value.values(columns, rows) for selected in query.columns]
    names = ["query", *bounds, *(selected.name for selected in query.columns)]
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in zip(names, found, strict=True)], metadata={"query": query.name}
    )
    batch = pa.RecordBatch.from_arrays(found, schema=schema)
    if query.having is not None:
        batch = batch.filter(pc.fill_null(query.having.values(columns, rows), False))
    return batch


def _value(aggregate: Aggregate, groups: pa.RecordBatch) -> pa.Array:
    if aggregate.kind == "rows":
        return groups.column("rows()")
    assert aggregate.argument is not None
    if aggregate.kind == "distinct":
        sketches = groups.column(Measure("distinct", aggregate.argument).name)
        return pa.array([estimate(sketch) for sketch in sketches.to_pylist()], pa.int64())
    counts = column(groups, Measure("count", aggregate.argument).name)
    if aggregate.kind == "count":
        return pa.array(counts)
    measure = Measure("sum" if aggregate.kind == "avg" else aggregate.kind, aggregate.argument)  # type: ignore[arg-type]
    values: Any = column(groups, measure.name)
    lost = counts == 0
    with np.errstate(invalid="ignore"):
        if measure.paired and measure.exact:
            beyond = column(groups, rest(measure.name))
            values, lost = (
                (values + beyond * 2.0**64, lost) if aggregate.kind == "avg" else (values, lost | (beyond != 0))
            )
        elif measure.paired:
            values = np.where(np.isfinite(values), values + column(groups, rest(measure.name)), values)
        if aggregate.kind == "avg":
            values = values / np.maximum(counts, 1)
        return pa.array(values, mask=lost | np.isnan(values))
