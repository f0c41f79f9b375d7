"""Aggregates, and the measures that slices hold for them: what can be added up over rows, slices and units."""

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
    """One aggregate of a query; `rows` is count(*)."""

    kind: AggregateKind
    argument: Expression | None

    @property
    def type(self) -> Type:
        """The type of its value."""
        if self.argument is None or self.kind in ("count", "distinct"):
            return "int"
        return "float" if self.kind == "avg" else self.argument.type

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What slices hold for it, besides the number of rows, which they always hold."""
        return tuple(Measure(kind, self.argument) for kind in _NEEDS[self.kind])


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: `count` is of values that are not null, `distinct` a sketch.

    A sum is kept as a pair, so that the order in which rows and slices are added does not show: of doubles the sum and
    what rounding left of it, 106 bits in all; of whole numbers its last 64 bits, and how often they went beyond those.
    """

    kind: MeasureKind
    argument: Expression | None = None

    @property
    def name(self) -> str:
        """Its column."""
        return f"{self.kind}({self.argument.sql if self.argument is not None else ''})"

    @property
    def exact(self) -> bool:
        """Whether it is a whole number."""
        return self.argument is None or self.kind == "count" or self.argument.type == "int"

    @property
    def paired(self) -> bool:
        """Whether a second column holds what does not go into the first."""
        return self.kind == "sum"

    @property
    def fields(self) -> list[pa.Field]:
        """Its columns."""
        if self.kind == "distinct":
            return [pa.field(self.name, pa.binary())]
        kind = pa.int64() if self.exact else pa.float64()
        return [pa.field(self.name, kind)] + ([pa.field(rest(self.name), kind)] if self.paired else [])


ROWS = Measure("rows")


def rest(name: str) -> str:
    """The column that holds what does not go into the sum in the column `name`."""
    return f"{name} rest"


def measures_of(aggregates: Iterable[Aggregate]) -> tuple[Measure, ...]:
    """All measures that aggregates need, each once, sorted by name; the number of rows comes first."""
    needed = {measure.name: measure for aggregate in aggregates for measure in aggregate.measures}
    return (ROWS, *(needed[name] for name in sorted(needed)))
