"""Result rows: computes the columns of a query from the measures of a window's groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from springline.spark_jobs.streaming.sources.field_types import MAX_DIGITS, arrow_type, scale_of, typed
from springline.spark_jobs.streaming.sql.windowing import CountWindow
from springline.spark_jobs.streaming.windows.aggregation.partials import column_values
from springline.spark_jobs.streaming.windows.aggregation.sketches import estimate
from springline.spark_jobs.streaming.windows.measures import Aggregate, Measure, remainder_column
from springline.spark_jobs.streaming.windows.query import Query


def result_batch(query: Query, groups: pa.RecordBatch, keys: list[str], begin: int, end: int) -> pa.RecordBatch:
    """Return the results of one window: query name and bounds, then the columns of SELECT.

    `keys` are the columns of `groups` that hold the query's keys. The bounds of a window of rows are row numbers.
    """
    rows = groups.num_rows
    kind = pa.int64() if isinstance(query.window, CountWindow) else arrow_type("timestamp")
    bounds = {"window_start": begin, "window_end": end}
    columns: dict[str, pa.Array] = {name: pa.repeat(pa.scalar(bound, kind), rows) for name, bound in bounds.items()}
    columns |= {f"$k{index}": groups.column(name) for index, name in enumerate(keys)}
    columns |= {f"$a{index}": _value(aggregate, groups) for index, aggregate in enumerate(query.aggregates)}
    arrays = [pa.repeat(pa.scalar(query.name), rows), columns["window_start"], columns["window_end"]]
    arrays += [selected.value.values(columns, rows) for selected in query.columns]
    names = ["query", *bounds, *(selected.name for selected in query.columns)]
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)], metadata={"query": query.name}
    )
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if query.having_condition is not None:
        batch = batch.filter(pc.fill_null(query.having_condition.values(columns, rows), False))
    return batch


def _value(aggregate: Aggregate, groups: pa.RecordBatch) -> pa.Array:
    if aggregate.kind == "rows":
        return groups.column("rows()")
    assert aggregate.argument is not None
    if aggregate.kind == "distinct":
        sketches = groups.column(Measure("distinct", aggregate.argument).name)
        return pa.array([estimate(sketch) for sketch in sketches.to_pylist()], pa.int64())
    counts = column_values(groups, Measure("count", aggregate.argument).name)
    if aggregate.kind == "count":
        return pa.array(counts)
    measure = Measure("sum" if aggregate.kind == "avg" else aggregate.kind, aggregate.argument)  # type: ignore[arg-type]
    values: Any = column_values(groups, measure.name)
    is_null = counts == 0
    with np.errstate(invalid="ignore"):
        if measure.has_remainder and measure.is_integer:
            overflows = column_values(groups, remainder_column(measure.name))
            values, is_null = (
                (values + overflows * 2.0**64, is_null)
                if aggregate.kind == "avg"
                else (values, is_null | (overflows != 0))
            )
        elif measure.has_remainder:
            values = np.where(
                np.isfinite(values), values + column_values(groups, remainder_column(measure.name)), values
            )
        scale = scale_of(aggregate.argument.type)
        if aggregate.kind == "avg":
            values = values / np.maximum(counts, 1) / 10.0 ** (scale or 0)
        elif scale is not None:
            is_null = is_null | (values >= 10**MAX_DIGITS) | (values <= -(10**MAX_DIGITS))
        return typed(pa.array(values, mask=is_null | np.isnan(values)), aggregate.type)
