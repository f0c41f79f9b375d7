"""Coverage: for which span of event time a reducer's slices hold all rows of a measure.

Mappers announce their coverage to the reducers when queries change. A unit that starts to compute a measure has already
read rows that it did not add: a window is complete only if it begins after the greatest time of those rows. A unit that
stops computing a measure will read rows that it does not add: a window is complete only if it was closed before that.
None means the time before all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from springline.spark_jobs.streaming.windows.measures import Measure
from springline.spark_jobs.streaming.windows.multi_query import Cube

MeasureStarts = Mapping[str, Mapping[str, int | None]]  # by cube and measure: the greatest time seen at its start
Spans = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]  # by cube, measure, upstream unit: [start, end]
_NOT_YET = "not yet"


@dataclass(frozen=True)
class CoverageChange:
    """The measures that a mapper unit computes from now on; `high` is the greatest time that it has read before."""

    unit: int
    version: int
    high: int | None
    measure_starts: MeasureStarts


def current_coverage(previous: MeasureStarts, cubes: Iterable[Cube], high: int | None) -> MeasureStarts:
    """Return the measures that a mapper computes for `cubes`, given those that it computed before."""
    return {
        cube.id: {measure.name: previous.get(cube.id, {}).get(measure.name, high) for measure in cube.measures}
        for cube in cubes
    }


def apply_change(spans: Spans, change: CoverageChange) -> Spans:
    """Return `spans` updated with the change that an upstream unit announced."""
    unit = str(change.unit)
    updated_spans = {cube: {m: dict(units) for m, units in measures.items()} for cube, measures in spans.items()}
    for cube, measures in updated_spans.items():
        for measure, units in measures.items():
            if unit in units and measure not in change.measure_starts.get(cube, {}):
                units[unit] = [units[unit][0], change.high if units[unit][1] == _NOT_YET else units[unit][1]]
    for cube, starts in change.measure_starts.items():
        for measure, high in starts.items():
            updated_spans.setdefault(cube, {}).setdefault(measure, {})[unit] = [high, _NOT_YET]
    return updated_spans


@dataclass(frozen=True, slots=True)
class CoveredSpan:
    """Windows are complete that begin after `after` and are closed by `until`; None means no such bound."""

    after: int | None
    until: int | None


def covered_span(spans: Spans, cube: str, measures: Iterable[Measure], units: Iterable[int]) -> CoveredSpan | None:
    """Return which windows of a query are complete; None if an upstream unit lacks one of its measures."""
    after: list[int] = []
    until: list[int] = []
    for measure in measures:
        by_unit = spans.get(cube, {}).get(measure.name, {})
        if any(str(unit) not in by_unit for unit in units):
            return None
        for began, ceased in by_unit.values():
            if ceased is None:
                return None
            after += [] if began is None else [began]
            until += [] if ceased == _NOT_YET else [ceased]
    return CoveredSpan(max(after, default=None), min(until, default=None))
