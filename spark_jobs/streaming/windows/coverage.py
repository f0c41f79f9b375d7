"""From which time on the slices of a measure are whole, and until when: what mappers tell reducers when queries change.

A unit that begins to hold a measure has seen rows before that it did not add to it: a window is whole only if it begins
after the greatest time of those. One that ceases to hold it will see rows that it does not add: a window is whole only
if it was closed before. None stands for the time before all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from springline.spark_jobs.streaming.windows.measures import Measure
from springline.spark_jobs.streaming.windows.multi_query import Cube

Held = Mapping[str, Mapping[str, int | None]]  # by cube and measure: the greatest time seen when it began
Spans = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]  # by cube, measure, unit upstream: [began, ceased]
_NOT_YET = "not yet"


@dataclass(frozen=True)
class Announcement:
    """What a unit of mappers holds from now on; `high` is the greatest time that it has seen before."""

    unit: int
    version: int
    high: int | None
    held: Held

    def buffer(self) -> pa.RecordBatch:
        """A buffer without rows that says so."""
        told = json.dumps([self.unit, self.version, self.high, self.held], sort_keys=True)
        return pa.RecordBatch.from_arrays([], schema=pa.schema([], metadata={"holds": told}))

    @staticmethod
    def read(metadata: Mapping[bytes, bytes]) -> Announcement | None:
        """The inverse of `buffer`, from the schema's metadata; None for a buffer of partials."""
        return Announcement(*json.loads(metadata[b"holds"])) if b"holds" in metadata else None


def held_now(held: Held, cubes: Iterable[Cube], high: int | None) -> Held:
    """What a mapper holds of `cubes`, having held `held`."""
    return {
        cube.id: {measure.name: held.get(cube.id, {}).get(measure.name, high) for measure in cube.measures}
        for cube in cubes
    }


def told(spans: Spans, said: Announcement) -> Spans:
    """`spans` with what a unit upstream has announced."""
    unit = str(said.unit)
    found = {cube: {m: dict(units) for m, units in measures.items()} for cube, measures in spans.items()}
    for cube, measures in found.items():
        for measure, units in measures.items():
            if unit in units and measure not in said.held.get(cube, {}):
                units[unit] = [units[unit][0], said.high if units[unit][1] == _NOT_YET else units[unit][1]]
    for cube, begun in said.held.items():
        for measure, high in begun.items():
            found.setdefault(cube, {}).setdefault(measure, {})[unit] = [high, _NOT_YET]
    return found


@dataclass(frozen=True, slots=True)
class Whole:
    """Windows are whole that begin after `after`, and are closed by `until`; None: without such a bound."""

    after: int | None
    until: int | None


def whole(spans: Spans, cube: str, measures: Iterable[Measure], units: Iterable[int]) -> Whole | None:
    """Which windows of a query are whole; None if none is, since some unit upstream does not hold all its measures."""
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
    return Whole(max(after, default=None), min(until, default=None))
