"""One pass over the rows for some cubes: rows to groups, groups to the partials of each cube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.streaming.windows.coding import Coder
from spark_jobs.streaming.windows.expressions import Expression
from spark_jobs.streaming.windows.partials import add_up, hashes_of, in_order, schema_of
from spark_jobs.streaming.windows.rows import Chunk
from spark_jobs.streaming.windows.sharing import Cube, Pass
from spark_jobs.streaming.windows.tables import EVERYWHERE, Codes, Flags, Ints, NumberTable
from spark_jobs.streaming.windows.totals import Totals


class Grouping:
    """The groups of one pass in a round."""

    def __init__(self, wanted: Pass, coder: Coder) -> None:
        self._pass = wanted
        self._coder = coder
        self._slices = NumberTable()
        self._pairs = [NumberTable() for _ in wanted.columns]
        self._totals = Totals(wanted.measures)

    def __len__(self) -> int:
        return len(self._pairs[-1] if self._pairs else self._slices)

    def add(self, chunk: Chunk, keep: Flags = EVERYWHERE) -> None:
        """Add the rows of a chunk, or those that `keep` says."""
        if self._pass.only is not None:
            holds = self._coder.holds(self._pass.only)
            keep = holds & keep if keep.size else holds
        first = self._pass.cubes[0]
        groups = self._slices.slices(chunk.times, first.width, first.phase, keep)
        for column, table in zip(self._pass.columns, self._pairs, strict=True):
            groups = table.pairs(groups, self._coder.codes(column))
        self._totals.add(groups, len(self), self._coder)

    def partials(self) -> dict[str, pa.RecordBatch]:
        """The partials of each cube that has any, by its name."""
        if not len(self):
            return {}
        slices, codes = self._decoded()
        measures = self._totals.arrays(len(self), self._coder)
        return {cube.id: self._partials(cube, slices, codes, measures) for cube in self._pass.cubes}

    def _decoded(self) -> tuple[Ints, dict[Expression, Ints]]:
        """The slice of each group, and the code that it has of each column."""
        at = np.arange(1, len(self) + 1)
        codes: dict[Expression, Ints] = {}
        for column, table in zip(reversed(self._pass.columns), reversed(self._pairs), strict=True):
            left, right = table.halves()
            codes[column] = right[at]
            at = left[at]
        return self._slices.numbers()[at], codes

    def _partials(
        self, cube: Cube, slices: Ints, codes: Mapping[Expression, Ints], measures: Mapping[str, Any]
    ) -> pa.RecordBatch:
        held = self._held(cube, codes)
        of_cube = {f.name: measures[f.name] for measure in cube.measures for f in measure.fields}
        keys = [codes[key] for key in cube.keys]
        if held is not None or len(cube.keys) < len(self._pass.columns):
            groups, count, firsts = regrouped(slices, keys, held)
            of_cube = add_up(of_cube, groups, count)
            slices, keys = slices[firsts], [key[firsts] for key in keys]
        return batch_of(cube, self._coder, slices, keys, of_cube)

    def _held(self, cube: Cube, codes: Mapping[Expression, Ints]) -> Flags | None:
        """Which groups pass the cube's filter; None: all."""
        if cube.where is None or cube.where == self._pass.only:
            return None
        if cube.where in codes:
            return np.asarray(codes[cube.where] == 2)
        plain = {column.sql: column for column in codes if column.sql in cube.where.columns}
        columns = {name: self._coder.values(c).take(pa.array(codes[c])) for name, c in plain.items()}
        values = cube.where.values(columns, len(self))
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))


def batch_of(
    cube: Cube, coder: Coder, slices: Ints, keys: Sequence[Ints], measures: Mapping[str, Any], *, ordered: bool = True
) -> pa.RecordBatch:
    """The partials of groups with these codes of keys, in order (or as they are)."""
    schema = schema_of(cube.keys, cube.measures)
    hashed = [coder.hashes(key)[codes] for key, codes in zip(cube.keys, keys, strict=True)]
    arrays = [pa.array(slices), pa.array(hashes_of(slices.size, hashed))]
    arrays += [coder.values(key).take(pa.array(codes)) for key, codes in zip(cube.keys, keys, strict=True)]
    arrays += [pa.array(measures[field.name], field.type) for field in schema if field.name in measures]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return in_order(batch) if ordered else batch


def regrouped(slices: Ints, keys: Sequence[Ints], held: Flags | None) -> tuple[Codes, int, Ints]:
    """Fewer groups from groups: the new number of each (-1: none), how many there are, and the first of each."""
    groups = NumberTable().codes(slices)
    if held is not None:
        groups = np.where(held, groups, np.int32(-1))
    for key in keys:
        groups = NumberTable().pairs(groups, key.astype(np.int32))
    if held is not None and not keys:
        groups = NumberTable().pairs(groups, np.zeros(groups.size, np.int32))  # numbered without gaps again
    count = int(groups.max(initial=0))
    firsts = np.zeros(count, np.int64)
    backwards = groups[::-1]
    firsts[backwards[backwards > 0] - 1] = np.arange(groups.size - 1, -1, -1)[backwards > 0]
    return groups, count, firsts
