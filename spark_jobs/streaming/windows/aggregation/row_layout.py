"""Wire format of rows that a mapper forwards without aggregating them: what a reducer needs to aggregate them itself.

    slice     dictionary of int64   start of the row's slice, in microseconds
    e0, …                           the expressions that are keys or arguments of measures

Texts are dictionary-encoded where many rows share them; integers have the narrowest type that holds all of a batch. The
metadata `rows` describes the expressions, so that a reducer can aggregate rows of a cube that it does not know yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.measures import Measure

LAYOUT = b"rows"  # in the metadata of a batch


@dataclass(frozen=True)
class RowLayout:
    """The columns of forwarded rows: `columns[i]` is in `e<i>`; keys come first, then other arguments of `measures`."""

    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]

    @property
    def columns(self) -> tuple[Expression, ...]:
        """The keys and the arguments of measures, each expression once."""
        arguments = (measure.argument for measure in self.measures if measure.argument is not None)
        return tuple(dict.fromkeys([*self.keys, *arguments]))

    def wire_type(self, column: Expression) -> str:
        """Return the type of a column; of arguments that are no numbers, only whether they are null is sent."""
        return column.type if column in self.keys or column.type in ("int", "float") else "bool"

    def encode(self) -> str:
        """Encode for the metadata of a batch."""
        expressions = [[column.sql, self.wire_type(column)] for column in self.columns]
        places = {column: index for index, column in enumerate(self.columns)}
        measures = [[each.kind, None if each.argument is None else places[each.argument]] for each in self.measures]
        return json.dumps([expressions, len(self.keys), measures])

    @staticmethod
    def of(batch: pa.RecordBatch) -> RowLayout | None:
        """Decode the layout of a batch; None for a batch of partials. The inverse of `encode`."""
        if not are_rows(batch):
            return None
        expressions, keys, measures = json.loads(batch.schema.metadata[LAYOUT])
        columns = [Expression(sql, kind, (), exp.column(sql)) for sql, kind in expressions]
        return RowLayout(
            tuple(columns[:keys]),
            tuple(Measure(kind, None if place is None else columns[place]) for kind, place in measures),
        )


def are_rows(batch: pa.RecordBatch) -> bool:
    """Return whether a batch has forwarded rows, and not partials."""
    return LAYOUT in (batch.schema.metadata or {})


def can_forward(measures: Sequence[Measure]) -> bool:
    """Return whether rows can be forwarded for these measures: sketches are always computed by the mapper."""
    return all(measure.kind != "distinct" for measure in measures)
