"""Aggregates, and the measures that slices hold for them: values that can be added over rows, slices and units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.sql.operations import Type

AggregateKind = Literal["rows", "count", "sum", "min", "max", "avg", "distinct"]
MeasureKind = Literal["rows", "count", "sum", "min", "max", "distinct"]
_NEEDS: dict[str, tuple[MeasureKind, ...]] = {
    "rows": (), "count": ("count",), "sum": ("count", "sum"), "min": ("count", "min"), "max": ("count", "max"),
    "avg": ("count", "sum"), "distinct": ("distinct",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of a query; the kind `rows` is count(*)."""

    kind: AggregateKind
    argument: Expression | None

    @property
    def type(self) -> Type:
        """The type of the aggregate's value."""
        if self.argument is None or self.kind in ("count", "distinct"):
            return "int"
        return "float" if self.kind == "avg" else self.argument.type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that slices hold for the aggregate, except the number of rows, which they always hold."""
        return tuple(Measure(kind, self.argument) for kind in _NEEDS[self.kind])


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure; `count` counts the values that are not null, `distinct` is a sketch.

    A sum is stored as a pair, so that the result does not depend on the order in which rows and slices are added: for
    doubles the sum and its rounding error, 106 bits in all; for integers the low 64 bits and the number of overflows.
    """

    kind: MeasureKind
    argument: Expression | None = None

    @property
    def name(self) -> str:
        """The name of the measure's column."""
        return f"{self.kind}({self.argument.sql if self.argument is not None else ''})"

    @property
    def is_integer(self) -> bool:
        """Whether the measure is an integer; decimals, dates and timestamps lie in columns as such."""
        return self.argument is None or self.kind == "count" or self.argument.type != "float"

    @property
    def has_remainder(self) -> bool:
        """Whether a second column holds the remainder of the sum: rounding error or number of overflows."""
        return self.kind == "sum"

    @property
    def fields(self) -> list[pa.Field]:
        """The measure's columns."""
        if self.kind == "distinct":
            return [pa.field(self.name, pa.binary())]
        kind = pa.int64() if self.is_integer else pa.float64()
        return [pa.field(self.name, kind)] + (
            [pa.field(remainder_column(self.name), kind)] if self.has_remainder else []
        )


ROWS = Measure("rows")


def remainder_column(name: str) -> str:
    """Return the name of the column that holds the remainder of the sum in the column `name`."""
    return f"{name} rest"


def measures_of(aggregates: Iterable[Aggregate]) -> tuple[Measure, ...]:
    """Return all measures that the aggregates need, each once, sorted by name; the number of rows comes first."""
    needed = {measure.name: measure for aggregate in aggregates for measure in aggregate.measures}
    return (ROWS, *(needed[name] for name in sorted(needed)))
