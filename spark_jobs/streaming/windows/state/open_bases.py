"""Open slices of base cubes at a reducer: stored as mappers send them, and rolled up to their members when they close.

A base's slices are closed for all its members at once, since they have the same lateness. Partials that arrive later
are rolled up at once; members with wider slices may still be open for them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from springline.spark_jobs.streaming.windows.aggregation.partials import merge
from springline.spark_jobs.streaming.windows.aggregation.roll_up import BaseLayout, roll_up
from springline.spark_jobs.streaming.windows.state.slices import Runs, push_run, slices_between


class OpenBases:
    """The layouts of bases by id, each with the time before which slices are rolled up; `runs` has their slices."""

    def __init__(self, layouts: Mapping[str, tuple[BaseLayout, int | None]], runs: dict[str, Runs]) -> None:
        self._layouts = dict(layouts)
        self._runs = runs

    @staticmethod
    def of(scalars: Mapping[str, Sequence[Any]], runs: dict[str, Runs]) -> OpenBases:
        """Create from a state's scalars, the inverse of `as_json`, and its runs, which are changed in place."""
        return OpenBases({name: (BaseLayout.from_json(each[0]), each[1]) for name, each in scalars.items()}, runs)

    def as_json(self) -> dict[str, Any]:
        """Return the scalars for the next round's state."""
        return {name: [layout.as_json(), before] for name, (layout, before) in sorted(self._layouts.items())}

    @property
    def names(self) -> Collection[str]:
        """The ids of the bases with open slices."""
        return self._layouts.keys()

    def receive(self, batch: pa.RecordBatch, closed: int | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Store the open slices of a buffer; yield (cube, partials with the buffer's origin) of its closed slices."""
        metadata = batch.schema.metadata
        layout, name = BaseLayout.from_json(json.loads(metadata[b"base"])), metadata[b"cube"].decode()
        batch = batch.replace_schema_metadata(None)
        before = layout.closed_before(closed)
        if before is not None:
            late = slices_between(batch, None, before)
            batch = slices_between(batch, before, None)
            for member in layout.members if late.num_rows else ():
                if (partials := roll_up(late, member)) is not None:
                    yield member.cube, partials.replace_schema_metadata({b"from": metadata[b"from"]})
        if batch.num_rows:
            self._layouts.setdefault(name, (layout, before))
            self._runs[name] = push_run(self._runs.get(name, ()), batch, self._layouts[name][1])

    def close(self, closed: int | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Roll up the slices that are closed now; yield (cube, partials)."""
        for name, (layout, since) in sorted(self._layouts.items()):
            before = layout.closed_before(closed)
            if before is None:
                continue
            closed_slices = merge([slices_between(run, since, before) for run in self._runs[name]])
            for member in layout.members if closed_slices is not None else ():
                assert closed_slices is not None
                if (partials := roll_up(closed_slices, member)) is not None:
                    yield member.cube, partials
            if runs := push_run(self._runs[name], None, before):
                self._layouts[name], self._runs[name] = (layout, before), runs
            else:
                del self._layouts[name], self._runs[name]


def open_partials(scalars: Mapping[str, Any], runs: Mapping[str, Runs], cube: str) -> list[pa.RecordBatch]:
    """Return the partials of a cube in the open slices of bases, without changing them."""
    partials: list[pa.RecordBatch | None] = []
    for name, (value, since) in sorted(scalars.get("bases", {}).items()):
        members = [member for member in BaseLayout.from_json(value).members if member.cube == cube]
        for member in members:
            closed_slices = merge([slices_between(run, since, None) for run in runs.get(name, ())])
            partials.append(roll_up(closed_slices, member) if closed_slices is not None else None)
    return [batch for batch in partials if batch is not None]
