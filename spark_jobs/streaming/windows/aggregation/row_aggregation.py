"""Aggregation of forwarded rows in the reducer: the same partials as a mapper would make of them.

Rows are grouped by one number, made of the codes of their slice and keys: a table with an entry for every number while
that is not much larger than the rows, otherwise a hash table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.block_lookups import code_places
from springline.spark_jobs.streaming.kernels.hash_tables import (
    Codes,
    Ints,
    NumberTable,
    PairTable,
    TextTable,
    UInt64s,
)
from springline.spark_jobs.streaming.sources.chunk import NumberColumn, TextColumn, column_of, concat_numbers
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.aggregation.accumulators import Accumulators
from springline.spark_jobs.streaming.windows.aggregation.dictionary import BOOL_HASHES, bools
from springline.spark_jobs.streaming.windows.aggregation.grouping import batch_of, hashes_of_groups
from springline.spark_jobs.streaming.windows.aggregation.partials import slice_ranks
from springline.spark_jobs.streaming.windows.aggregation.row_layout import LAYOUT, RowLayout, are_rows

_MAX_DENSE = 1 << 24  # entries: 64 MB
_PACKED = 1 << 63


def aggregate_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the partials of all rows; the batches are of one cube and have the same layout."""
    layout = RowLayout.of(batches[0])
    assert layout is not None
    slices = NumberTable()
    slice_codes = np.concatenate(
        [slices.codes(_dictionary(each))[_indices(each)] for each in _columns(batches, "slice")]
    )
    rows = _Rows(layout, batches)
    codes = [rows.codes(key) for key in layout.keys]
    groups, count = _grouped([slice_codes, *codes], [len(slices), *(rows.size(key) - 1 for key in layout.keys)])
    accumulators = Accumulators(layout.measures)
    accumulators.add(groups, count, rows)
    firsts = np.empty(count, np.int64)
    firsts[groups[::-1] - 1] = np.arange(groups.size - 1, -1, -1)
    group_slices, keys = slices.numbers()[slice_codes[firsts]], [code[firsts].astype(np.int64) for code in codes]
    hashes = hashes_of_groups(layout.keys, rows, keys, count)
    order = np.argsort(slice_ranks(group_slices), kind="stable")
    return batch_of(
        layout.keys, layout.measures, rows, group_slices, hashes, keys, accumulators.arrays(count, rows), order
    )


def partials_of(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return batches of one cube with the partials of its rows in place of the rows, under the first one's metadata."""
    partials: list[pa.RecordBatch] = []
    rows: dict[bytes, list[pa.RecordBatch]] = {}
    for batch in batches:
        if are_rows(batch):
            rows.setdefault(batch.schema.metadata[LAYOUT], []).append(batch)
        else:
            partials.append(batch)
    for same in rows.values():
        metadata = {name: value for name, value in same[0].schema.metadata.items() if name != LAYOUT}
        partials.append(aggregate_rows(same).replace_schema_metadata(metadata))
    return partials


def forwarded_rows_of(cube: str) -> str:
    """Return the name of a reducer's runs of forwarded rows of a cube."""
    return f"{cube}-forwarded"


def slices_of_rows(batch: pa.RecordBatch) -> Ints:
    """Return the slices that forwarded rows lie in, in no particular order."""
    return _dictionary(batch.column("slice"))


class _Rows:
    """The columns of forwarded rows: codes and values of keys, and the numbers that measures take."""

    def __init__(self, layout: RowLayout, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._names = {column: f"e{index}" for index, column in enumerate(layout.columns)}
        self._tables: dict[Expression, TextTable | NumberTable] = {}
        self._codes: dict[Expression, Codes] = {}

    def numbers(self, expression: Expression) -> NumberColumn:
        """Return the values of a numeric expression."""
        parts = [column_of(column) for column in _columns(self._batches, self._names[expression])]
        numbers = concat_numbers([part for part in parts if isinstance(part, NumberColumn)])
        kind = np.float64 if expression.type == "float" else np.int64
        return NumberColumn(numbers.values.astype(kind, copy=False), numbers.valid)

    def codes(self, expression: Expression) -> Codes:
        """Return the code of each row's value; 0 for null."""
        if expression not in self._codes:
            self._codes[expression] = self._encode(expression)
        return self._codes[expression]

    def size(self, expression: Expression) -> int:
        """Return how many codes there are, including that of null."""
        return 3 if expression.type == "bool" else len(self._tables[expression]) + 1

    def values(self, expression: Expression) -> pa.Array:
        """Return the value of each code."""
        if expression.type == "bool":
            return bools()
        table = self._tables[expression]
        if isinstance(table, TextTable):
            return table.texts()
        numbers = table.numbers()
        plain = numbers.view(np.float64) if expression.type == "float" else numbers
        return pa.array(plain, mask=np.arange(plain.size) == 0)

    def hashes(self, expression: Expression) -> UInt64s:
        """Return a hash of the value of each code."""
        return BOOL_HASHES if expression.type == "bool" else self._tables[expression].hashes()

    def _encode(self, expression: Expression) -> Codes:
        columns = _columns(self._batches, self._names[expression])
        if expression.type in ("int", "float"):
            numbers = self.numbers(expression)
            table = self._tables[expression] = NumberTable()
            return table.codes(numbers.bits(), numbers.valid)
        if expression.type != "text":
            return np.concatenate([np.asarray(column).astype(np.int32) for column in columns])
        texts = self._tables[expression] = TextTable()
        return np.concatenate([_text_codes(texts, column) for column in columns])


def _text_codes(table: TextTable, column: pa.Array) -> Codes:
    if not pa.types.is_dictionary(column.type):
        texts = column_of(column)
        assert isinstance(texts, TextColumn)
        return table.codes(texts.data, texts.starts, texts.lengths)
    own = _text_codes(table, column.dictionary)
    return np.append(own, np.int32(0))[_indices(column)]  # index -1, of null, selects the last


def _grouped(codes: Sequence[Codes], sizes: Sequence[int]) -> tuple[Codes, int]:
    """Return the group of each row, numbered from 1 by first appearance, and how many groups there are."""
    places = math.prod(size + 1 for size in sizes)
    if places < _PACKED:
        packed = codes[0].astype(np.int64)
        for code, size in zip(codes[1:], sizes[1:], strict=True):
            packed *= size + 1
            packed += code
        if places <= min(4 * packed.size, _MAX_DENSE):
            groups, count = code_places(packed, places)
            return groups, count
        table = NumberTable()
        return table.codes(packed), len(table)
    groups, count = codes[0], sizes[0]
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        pairs = PairTable()
        groups = pairs.codes(groups, code, count, size)
        count = len(pairs)
    return groups, count


def _columns(batches: Sequence[pa.RecordBatch], name: str) -> list[Any]:
    return [batch.column(name) for batch in batches]


def _dictionary(column: Any) -> Ints:
    return np.asarray(column.dictionary)


def _indices(column: Any) -> Ints:
    indices = column.indices
    return np.asarray(indices.fill_null(-1) if indices.null_count else indices)
