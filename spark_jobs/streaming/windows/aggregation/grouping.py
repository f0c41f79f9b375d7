"""One pass over the rows for some cubes: rows to groups, groups to the partials of each cube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import (
    EVERYWHERE,
    Codes,
    Flags,
    Ints,
    NumberTable,
    PairTable,
    Words,
)
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.aggregation.accumulators import Totals
from springline.spark_jobs.streaming.windows.aggregation.dictionary import Coder
from springline.spark_jobs.streaming.windows.aggregation.partials import (
    add_up,
    hashes_of,
    in_order,
    merge,
    schema_of,
    units_of,
)
from springline.spark_jobs.streaming.windows.multi_query import Cube, Pass, Slices


class Grouping:
    """The groups of one pass in a round.

    Rows that are late for some of its cubes and not for others, which are few, are grouped by themselves for each kind
    of slices.
    """

    def __init__(self, wanted: Pass, coder: Coder) -> None:
        self._pass = wanted
        self._coder = coder
        self._groups = _Groups(wanted, coder)
        self._apart: dict[Slices, _Groups] = {}
        self._slices = sorted({cube.slices for cube in wanted.cubes})

    @property
    def queries(self) -> list[str]:
        """The names of the queries that it is for."""
        return [name for cube in self._pass.cubes for name in cube.queries]

    def add(self, chunk: Chunk, on_time: Mapping[Slices, Flags]) -> None:
        """Add the rows of a chunk; `on_time` says which are, for each kind of slices (empty: all)."""
        some = [on_time[slices] for slices in self._slices if on_time[slices].size]
        always = np.logical_and.reduce(some) if some else EVERYWHERE
        self._groups.add(chunk, always)
        if not some:
            return
        for slices in self._slices:
            rest = ~always & on_time[slices] if on_time[slices].size else ~always
            if rest.any():
                self._apart.setdefault(slices, _Groups(self._pass, self._coder)).add(chunk, rest)

    def partials(self, units: int) -> dict[str, list[pa.RecordBatch]]:
        """The partials of each cube for each unit downstream, by the cube's name."""
        found = self._groups.partials(self._pass.cubes, units)
        for slices, groups in sorted(self._apart.items()):
            cubes = [cube for cube in self._pass.cubes if cube.slices == slices]
            for name, batches in groups.partials(cubes, units).items():
                both = zip(found.get(name, [b.slice(0, 0) for b in batches]), batches, strict=True)
                found[name] = [merge(pair) or pair[0] for pair in both]
        return found


class _Groups:
    """Groups of rows by slices and the columns of a pass."""

    def __init__(self, wanted: Pass, coder: Coder) -> None:
        self._pass = wanted
        self._coder = coder
        self._slices = NumberTable()
        self._pairs = PairTable()
        self._totals = Totals(wanted.measures)

    def add(self, chunk: Chunk, keep: Flags) -> None:
        if self._pass.only is not None:
            holds = self._coder.holds(self._pass.only)
            keep = holds & keep if keep.size else holds
        slices = self._slices.slices(chunk.times, self._pass.width, self._pass.phase, keep)
        groups = self._coder.groups(self._pass.columns)
        most = self._coder.groups_so_far(self._pass.columns)
        self._totals.add(self._pairs.codes(slices, groups, len(self._slices), most), len(self._pairs), self._coder)

    def partials(self, cubes: Sequence[Cube], units: int) -> dict[str, list[pa.RecordBatch]]:
        count = len(self._pairs)
        if not count:
            return {}
        left, right = self._pairs.halves()
        slices = self._slices.numbers()[left[1:]]
        codes = self._coder.parts(self._pass.columns, right[1:])
        measures = self._totals.arrays(count, self._coder)
        return {cube.id: self._partials(cube, slices, codes, measures, units) for cube in cubes}

    def _partials(
        self, cube: Cube, slices: Ints, codes: Mapping[Expression, Ints], measures: Mapping[str, Any], units: int
    ) -> list[pa.RecordBatch]:
        held = self._held(cube, codes)
        of_cube = {f.name: measures[f.name] for measure in cube.measures for f in measure.fields}
        keys = [codes[key] for key in cube.keys]
        if held is not None or len(cube.keys) < len(self._pass.columns) or cube.width != self._pass.width:
            slices = (slices - cube.phase) // cube.width * cube.width + cube.phase
            groups, count, firsts = regrouped(slices, keys, held)
            of_cube = add_up(of_cube, groups, count)
            slices, keys = slices[firsts], [key[firsts] for key in keys]
        hashes = hashes_of_groups(cube, self._coder, keys, slices.size)
        order = in_order(slices, hashes, units)
        batch = batch_of(cube, self._coder, slices, hashes, keys, of_cube, order)
        limits = np.searchsorted(units_of(hashes, units)[order], np.arange(units + 1))
        return [batch.slice(first, last - first) for first, last in pairwise(limits.tolist())]

    def _held(self, cube: Cube, codes: Mapping[Expression, Ints]) -> Flags | None:
        """Which groups pass the cube's filter; None: all."""
        if cube.where is None or cube.where == self._pass.only:
            return None
        if cube.where in codes:
            return np.asarray(codes[cube.where] == 2)
        plain = {column.sql: column for column in codes if column.sql in cube.where.columns}
        columns = {name: self._coder.values(c).take(pa.array(codes[c])) for name, c in plain.items()}
        values = cube.where.values(columns, len(self._pairs))
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))


def hashes_of_groups(cube: Cube, coder: Coder, keys: Sequence[Ints], count: int) -> Words:
    """The hash of each group, from the codes of its keys."""
    return hashes_of(count, [coder.hashes(key)[codes] for key, codes in zip(cube.keys, keys, strict=True)])


def batch_of(
    cube: Cube,
    coder: Coder,
    slices: Ints,
    hashes: Words,
    keys: Sequence[Ints],
    measures: Mapping[str, Any],
    order: Ints,
) -> pa.RecordBatch:
    """The partials of groups with these codes of keys, in that order."""
    schema = schema_of(cube.keys, cube.measures)
    arrays = [pa.array(slices[order]), pa.array(hashes[order])]
    arrays += [coder.values(key).take(pa.array(codes[order])) for key, codes in zip(cube.keys, keys, strict=True)]
    for field in schema:
        if field.name in measures:
            values = measures[field.name]
            ordered = [values[row] for row in order] if isinstance(values, list) else values[order]
            arrays.append(pa.array(ordered, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def regrouped(slices: Ints, keys: Sequence[Ints], held: Flags | None) -> tuple[Codes, int, Ints]:
    """Fewer groups from groups: the new number of each (-1: none), how many there are, and the first of each."""
    table = NumberTable()
    groups = table.codes(slices)
    count = len(table)
    if held is not None:
        groups = np.where(held, groups, np.int32(-1))
    more = list(keys)
    if held is not None and not keys:
        more = [np.zeros(groups.size, np.int64)]  # numbered without gaps again
    for key in more:
        pairs = PairTable()
        groups = pairs.codes(groups, key.astype(np.int32), count, int(key.max(initial=0)))
        count = len(pairs)
    firsts = np.zeros(count, np.int64)
    backwards = groups[::-1]
    firsts[backwards[backwards > 0] - 1] = np.arange(groups.size - 1, -1, -1)[backwards > 0]
    return groups, count, firsts
