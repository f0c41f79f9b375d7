"""One pass over the rows for several cubes: rows to groups, and groups to the partials of each cube."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    UInt64s,
)
from springline.spark_jobs.streaming.sources.chunk import Chunk
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.aggregation.accumulators import Accumulators
from springline.spark_jobs.streaming.windows.aggregation.dictionary import DictionaryEncoder
from springline.spark_jobs.streaming.windows.aggregation.partials import (
    accumulate_measures,
    hashes_of,
    merge,
    partial_schema,
    sort_order,
    units_of,
)
from springline.spark_jobs.streaming.windows.measures import Measure
from springline.spark_jobs.streaming.windows.multi_query import Cube, ScanPass, Slices

BUFFER_GROUPS = 20_000  # groups per buffer
Buffer = tuple[str, int, pa.RecordBatch]  # cube, downstream unit, partials


class Grouping:
    """The groups of one pass in a round.

    Rows that are late for some of its cubes and not for others, which are few, are grouped separately for each kind of
    slices.
    """

    def __init__(self, scan_pass: ScanPass, encoder: DictionaryEncoder) -> None:
        self._pass = scan_pass
        self._encoder = encoder
        self._groups = _Groups(scan_pass, encoder)
        self._groups_by_slices: dict[Slices, _Groups] = {}
        self._slices = sorted({cube.slices for cube in scan_pass.cubes})

    @property
    def queries(self) -> list[str]:
        """The names of the queries that the pass serves."""
        return [name for cube in self._pass.cubes for name in cube.queries]

    def add(self, chunk: Chunk, on_time: Mapping[Slices, Flags]) -> None:
        """Add the rows of a chunk; `on_time` has the rows that are not late, for each kind of slices (empty: all)."""
        some = [on_time[slices] for slices in self._slices if on_time[slices].size]
        always = np.logical_and.reduce(some) if some else EVERYWHERE
        self._groups.add(chunk, always)
        if not some:
            return
        for slices in self._slices:
            rest = ~always & on_time[slices] if on_time[slices].size else ~always
            if rest.any():
                self._groups_by_slices.setdefault(slices, _Groups(self._pass, self._encoder)).add(chunk, rest)

    def buffers(self, units: int) -> Iterator[Buffer]:
        """Yield (cube, downstream unit, partials), at most `BUFFER_GROUPS` in each."""
        for name, batches in self._partials(units).items():
            yield from ((name, unit, part) for unit, batch in enumerate(batches) for part in split_batch(batch))

    def _partials(self, units: int) -> dict[str, list[pa.RecordBatch]]:
        """Return the partials of each cube for each downstream unit, by the cube's id."""
        partials = self._groups.partials(self._pass.cubes, units)
        for slices, groups in sorted(self._groups_by_slices.items()):
            cubes = [cube for cube in self._pass.cubes if cube.slices == slices]
            for name, batches in groups.partials(cubes, units).items():
                both = zip(partials.get(name, [b.slice(0, 0) for b in batches]), batches, strict=True)
                partials[name] = [merge(pair) or pair[0] for pair in both]
        return partials


class _Groups:
    """Groups of rows by slices and the columns of a pass."""

    def __init__(self, scan_pass: ScanPass, encoder: DictionaryEncoder) -> None:
        self._pass = scan_pass
        self._encoder = encoder
        self._slices = NumberTable()
        self._pairs = PairTable()
        self._accumulators = Accumulators(scan_pass.measures)

    def add(self, chunk: Chunk, keep: Flags) -> None:
        if self._pass.only is not None:
            holds = self._encoder.holds(self._pass.only)
            keep = holds & keep if keep.size else holds
        slices = self._slices.slices(chunk.times, self._pass.width, self._pass.phase, keep)
        groups = self._encoder.groups(self._pass.columns)
        most = self._encoder.max_group_code(self._pass.columns)
        self._accumulators.add(
            self._pairs.codes(slices, groups, len(self._slices), most), len(self._pairs), self._encoder
        )

    def partials(self, cubes: Sequence[Cube], units: int) -> dict[str, list[pa.RecordBatch]]:
        count = len(self._pairs)
        if not count:
            return {}
        left, right = self._pairs.pairs()
        slices = self._slices.numbers()[left[1:]]
        codes = self._encoder.codes_by_expression(self._pass.columns, right[1:])
        measures = self._accumulators.arrays(count, self._encoder)
        return {cube.id: self._partials(cube, slices, codes, measures, units) for cube in cubes}

    def _partials(
        self, cube: Cube, slices: Ints, codes: Mapping[Expression, Ints], measures: Mapping[str, Any], units: int
    ) -> list[pa.RecordBatch]:
        passing = self._passing_groups(cube.where, codes)
        of_cube = {f.name: measures[f.name] for measure in cube.measures for f in measure.fields}
        keys = [codes[key] for key in cube.keys]
        if passing is not None or len(cube.keys) < len(self._pass.columns) or cube.width != self._pass.width:
            slices = (slices - cube.phase) // cube.width * cube.width + cube.phase
            groups, count, firsts = regroup(slices, keys, passing)
            of_cube = accumulate_measures(of_cube, groups, count)
            slices, keys = slices[firsts], [key[firsts] for key in keys]
        hashes = hashes_of_groups(cube.keys, self._encoder, keys, slices.size)
        places = units_of(hashes, units)
        order = sort_order(slices, hashes, places if units > 1 else None)
        batch = batch_of(cube.keys, cube.measures, self._encoder, slices, hashes, keys, of_cube, order)
        limits = np.searchsorted(places[order], np.arange(units + 1))
        return [batch.slice(first, last - first) for first, last in pairwise(limits.tolist())]

    def _passing_groups(self, where: Expression | None, codes: Mapping[Expression, Ints]) -> Flags | None:
        """Return which groups pass a filter; None means all."""
        if where is None or where == self._pass.only:
            return None
        if where in codes:
            return np.asarray(codes[where] == 2)
        plain = {column.sql: column for column in codes if column.sql in where.columns}
        columns = {name: self._encoder.values(c).take(pa.array(codes[c])) for name, c in plain.items()}
        values = where.values(columns, len(self._pairs))
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))


def hashes_of_groups(
    keys: Sequence[Expression], encoder: DictionaryEncoder, codes: Sequence[Ints], count: int
) -> UInt64s:
    """Return the hash of each group, computed from the codes of its keys."""
    return hashes_of(count, [encoder.hashes(key)[own] for key, own in zip(keys, codes, strict=True)])


def batch_of(
    keys: Sequence[Expression],
    measures: Sequence[Measure],
    encoder: DictionaryEncoder,
    slices: Ints,
    hashes: UInt64s,
    codes: Sequence[Ints],
    values: Mapping[str, Any],
    order: Ints,
) -> pa.RecordBatch:
    """Return the partials of the groups with these key codes, in the given order."""
    schema = partial_schema(keys, measures)
    arrays = [pa.array(slices[order]), pa.array(hashes[order])]
    arrays += [encoder.values(key).take(pa.array(own[order])) for key, own in zip(keys, codes, strict=True)]
    for field in schema:
        if field.name in values:
            of_field = values[field.name]
            ordered = [of_field[row] for row in order] if isinstance(of_field, list) else of_field[order]
            arrays.append(pa.array(ordered, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def regroup(slices: Ints, keys: Sequence[Ints], passing: Flags | None) -> tuple[Codes, int, Ints]:
    """Merge groups into fewer groups.

    Returns the new number of each group (-1: none), how many there are now, and the index of the first of each.
    """
    table = NumberTable()
    groups = table.codes(slices)
    count = len(table)
    if passing is not None:
        groups = np.where(passing, groups, np.int32(-1))
    more = list(keys)
    if passing is not None and not keys:
        more = [np.zeros(groups.size, np.int64)]  # renumber without gaps
    for key in more:
        pairs = PairTable()
        groups = pairs.codes(groups, key.astype(np.int32), count, int(key.max(initial=0)))
        count = len(pairs)
    firsts = np.zeros(count, np.int64)
    backwards = groups[::-1]
    firsts[backwards[backwards > 0] - 1] = np.arange(groups.size - 1, -1, -1)[backwards > 0]
    return groups, count, firsts


def split_batch(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Split a batch into buffers of at most `BUFFER_GROUPS` groups."""
    return [batch.slice(first, BUFFER_GROUPS) for first in range(0, batch.num_rows, BUFFER_GROUPS)]
