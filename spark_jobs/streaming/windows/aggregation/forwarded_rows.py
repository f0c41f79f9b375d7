"""Rows that a mapper forwards to the reducers of their groups, where aggregating them would hardly make them fewer.

A partial costs more than a row: it is computed in the mapper, has every measure in full width, and is merged once more
in the reducer. `ratio`, the partials per row, decides in which form the next round is sent; it is measured on the rows
of one group in `_SAMPLED`, chosen by hash, so it depends on the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.kernels.hash_tables import (
    NULL_HASH,
    Codes,
    Flags,
    Ints,
    NumberTable,
    UInt64s,
)
from springline.spark_jobs.streaming.kernels.hashing import hash_numbers
from springline.spark_jobs.streaming.sources.chunk import Chunk, NumberColumn, concat_numbers
from springline.spark_jobs.streaming.sql.expressions import Expression
from springline.spark_jobs.streaming.windows.aggregation.dictionary import DictionaryEncoder
from springline.spark_jobs.streaming.windows.aggregation.grouping import MIN_ROWS, Buffer
from springline.spark_jobs.streaming.windows.aggregation.partials import hashes_of, units_of, with_number
from springline.spark_jobs.streaming.windows.aggregation.row_layout import LAYOUT, RowLayout
from springline.spark_jobs.streaming.windows.multi_query import ScanPass, Slices

FORWARD_ABOVE = 0.2  # partials per row
BUFFER_ROWS = 262_144  # rows per buffer
_SAMPLED = np.uint64(15)  # one group in 16
_DICTIONARY_BYTES = 1 << 21
_SIGNED = (np.int8, np.int16, np.int32)
_UNSIGNED = (np.uint8, np.uint16, np.int32)


class ForwardedRows:
    """The rows of a round for the only cube of a pass."""

    def __init__(self, scan_pass: ScanPass, encoder: DictionaryEncoder) -> None:
        (self._cube,) = scan_pass.cubes
        self._pass = scan_pass
        self._encoder = encoder
        self._layout = RowLayout(self._cube.keys, self._cube.measures)
        self._slices = NumberTable()
        self._slice_codes: list[Codes] = []
        self._hashes: list[UInt64s] = []
        self._columns: list[list[NumberColumn]] = [[] for _ in self._layout.columns]

    @property
    def queries(self) -> Sequence[str]:
        """The names of the queries that the rows serve."""
        return self._cube.queries

    def add(self, chunk: Chunk, on_time: Mapping[Slices, Flags]) -> None:
        """Add the rows of a chunk that pass the filter and are not late."""
        keep = on_time[self._cube.slices]
        if self._pass.only is not None:
            holds = self._encoder.holds(self._pass.only)
            keep = holds & keep if keep.size else holds
        slices = self._slices.slices(chunk.times, self._cube.width, self._cube.phase, keep)
        rows: Any = np.flatnonzero(keep) if keep.size and not keep.all() else slice(None)
        columns = [self._column(expression, rows) for expression in self._layout.columns]
        self._slice_codes.append(slices[rows])
        self._hashes.append(
            hashes_of(
                self._slice_codes[-1].size,
                [_hashes(self._encoder, key, columns[index]) for index, key in enumerate(self._layout.keys)],
            )
        )
        for parts, column in zip(self._columns, columns, strict=True):
            parts.append(column)

    def ratios(self) -> dict[str, float]:
        """Estimate how many partials of the cube there would be per row, if there are enough rows for that."""
        hashes, slices = np.concatenate([*self._hashes, _NO_HASHES]), np.concatenate([*self._slice_codes, _NO_CODES])
        if hashes.size < MIN_ROWS:
            return {}
        sampled = np.flatnonzero((hashes & _SAMPLED) == 0)
        groups = np.unique(with_number(hashes[sampled], slices[sampled]))
        return {self._cube.id: round(groups.size / max(sampled.size, 1), 4)}

    def buffers(self, units: int) -> Iterator[Buffer]:
        """Yield (cube, downstream unit, rows), sorted by unit; rows keep their order."""
        if not self._hashes:
            return
        place = units_of(np.concatenate(self._hashes), units)
        slices = np.concatenate(self._slice_codes)
        columns = [concat_numbers(parts) for parts in self._columns]
        values = [
            self._encoder.values(column) if self._layout.wire_type(column) == "text" else None
            for column in self._layout.columns
        ]
        for unit in range(units):
            of_unit = np.flatnonzero(place == unit) if units > 1 else np.arange(place.size)
            for first in range(0, of_unit.size, BUFFER_ROWS):
                rows = of_unit[first : first + BUFFER_ROWS]
                arrays = [_slice_array(self._slices.numbers(), slices[rows])]
                arrays += [
                    _text_array(column.values[rows], texts) if texts is not None else _number_array(column.take(rows))
                    for column, texts in zip(columns, values, strict=True)
                ]
                names = ["slice", *(f"e{index}" for index in range(len(columns)))]
                batch = pa.RecordBatch.from_arrays(arrays, names, metadata={LAYOUT: self._layout.encode()})
                yield self._cube.id, unit, batch

    def _column(self, expression: Expression, rows: Any) -> NumberColumn:
        """Return a copy of some rows of an expression: numbers as they are, codes for other types."""
        if expression.type in ("int", "float"):
            numbers = self._encoder.numbers(expression)
            valid = numbers.valid[rows].copy() if numbers.valid.size else numbers.valid
            return NumberColumn(numbers.values[rows].copy(), valid)
        codes = self._encoder.codes(expression)[rows]
        if expression in self._layout.keys:
            return NumberColumn(codes.copy())
        return NumberColumn((codes > 0).astype(np.int32) * 2)  # as a condition: null or true


_NO_HASHES: UInt64s = np.empty(0, np.uint64)
_NO_CODES: Codes = np.empty(0, np.int32)


def _hashes(encoder: DictionaryEncoder, key: Expression, column: NumberColumn) -> UInt64s:
    """Return the hash of each value of a key, equal to those of the encoder's tables."""
    if key.type not in ("int", "float"):
        codes: Codes = column.values
        return encoder.hashes(key)[codes]
    hashes: UInt64s = hash_numbers(column.bits())
    return np.where(column.valid, hashes, NULL_HASH) if column.valid.size else hashes


def _slice_array(numbers: Ints, codes: Codes) -> pa.Array:
    used, indices = _compacted(codes, numbers.size)
    return pa.DictionaryArray.from_arrays(pa.array(_narrowed(indices)), pa.array(numbers[used]))


def _text_array(codes: npt.NDArray[Any], texts: pa.Array) -> pa.Array:
    """Return texts by their codes, of which 0 is null; as a dictionary if that is smaller."""
    used, indices = _compacted(codes, len(texts))
    values = texts.take(pa.array(used))
    if used.size * 2 > codes.size or values.nbytes > _DICTIONARY_BYTES:
        return values.take(pa.array(indices))
    if used.size and used[0] == 0:
        values, indices = values.slice(1), indices - 1
        return pa.DictionaryArray.from_arrays(pa.array(_narrowed(indices), mask=indices < 0), values)
    return pa.DictionaryArray.from_arrays(pa.array(_narrowed(indices)), values)


def _number_array(column: NumberColumn) -> pa.Array:
    values = _narrowed(column.values) if column.values.dtype != np.float64 else column.values
    return pa.array(values, mask=~column.valid if column.valid.size else None, from_pandas=False)


def _compacted(codes: npt.NDArray[Any], count: int) -> tuple[Ints, Ints]:
    """Return the codes that occur, ascending, and the position of each row's code among them."""
    occurs = np.zeros(count, np.bool_)
    occurs[codes] = True
    used = np.flatnonzero(occurs)
    places = np.empty(count, np.int64)
    places[used] = np.arange(used.size)
    return used, places[codes]


def _narrowed(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers in the narrowest type that holds them."""
    if not values.size:
        return values
    low, high = int(values.min()), int(values.max())
    for kind in _SIGNED if low < 0 else _UNSIGNED:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values
