"""Accumulators that add the measures of groups, row by row or slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.kernels.hash_tables import Codes, Flags, PairTable
from springline.spark_jobs.streaming.kernels.sums import (
    add_counts,
    add_integers_in_pairs,
    add_ones,
    add_sums_in_pairs,
    keep_max,
    keep_min,
)
from springline.spark_jobs.streaming.sources.field_types import is_stored_as_number
from springline.spark_jobs.streaming.windows.aggregation.dictionary import DictionaryEncoder
from springline.spark_jobs.streaming.windows.aggregation.sketches import sketches_of
from springline.spark_jobs.streaming.windows.measures import ROWS, Measure, remainder_column

Arrays = dict[str, npt.NDArray[Any]]


class Accumulators:
    """The measures of groups, which are numbered from 1; rows with a negative group number are skipped."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self._measures = tuple(sorted(measures, key=lambda measure: measure.kind == "rows"))
        self._as_rows: set[str] = set()  # counts for which no value was null so far
        self._arrays: Arrays = {}
        self._pairs: dict[str, PairTable] = {}
        for measure in self._measures:
            if measure.kind == "count":
                self._as_rows.add(measure.name)
            if measure.kind == "distinct":
                self._pairs[measure.name] = PairTable()
                continue
            kind = np.int64 if measure.is_integer else np.float64
            self._arrays[measure.name] = np.full(0, neutral_value(measure.name, kind), kind)
            if measure.has_remainder:
                self._arrays[remainder_column(measure.name)] = np.zeros(0, kind)

    def add(self, groups: Codes, count: int, encoder: DictionaryEncoder) -> None:
        """Add the rows of a chunk; `groups` has the group of each row, `count` is the greatest group number so far."""
        self._grow(count + 1)
        for measure in self._measures:
            if measure.argument is None:
                add_ones(groups, self._arrays[measure.name])
            elif measure.kind == "distinct":
                values = encoder.codes(measure.argument)
                counted_groups = np.where(values > 0, groups, np.int32(-1))
                self._pairs[measure.name].codes(counted_groups, values, count, int(values.max(initial=0)))
            elif measure.kind == "count" and not is_stored_as_number(measure.argument.type):
                self._count(measure.name, groups, encoder.codes(measure.argument) > 0)
            else:
                self._add_numbers(measure, groups, encoder)

    def _add_numbers(self, measure: Measure, groups: Codes, encoder: DictionaryEncoder) -> None:
        assert measure.argument is not None
        numbers = encoder.numbers(measure.argument)
        into = self._arrays[measure.name]
        if measure.kind == "count":
            self._count(measure.name, groups, numbers.valid)
        elif measure.has_remainder:
            add_pairs = add_integers_in_pairs if measure.is_integer else add_sums_in_pairs
            add_pairs(groups, numbers.values, numbers.valid, into, self._arrays[remainder_column(measure.name)])
        else:
            keep = keep_min if measure.kind == "min" else keep_max
            keep(groups, numbers.values, numbers.valid, into)

    def _count(self, name: str, groups: Codes, valid: Flags) -> None:
        """Count values; as long as none is null, the count equals the row count, which is computed afterwards."""
        if name in self._as_rows:
            if not valid.size or valid.all():
                return
            self._as_rows.discard(name)
            self._arrays[name] = self._arrays[ROWS.name].copy()
        if valid.size:
            add_counts(groups, valid, self._arrays[name])
        else:
            add_ones(groups, self._arrays[name])

    def arrays(self, count: int, encoder: DictionaryEncoder) -> dict[str, Any]:
        """Return the measures of groups 1 to `count`; sketches as a list of bytes."""
        self._grow(count + 1)
        named = {name: self._arrays[ROWS.name if name in self._as_rows else name] for name in self._arrays}
        arrays: dict[str, Any] = {name: array[1 : count + 1] for name, array in named.items()}
        for measure in self._measures:
            if measure.kind == "distinct" and measure.argument is not None:
                groups, codes = self._pairs[measure.name].pairs()
                values = encoder.values(measure.argument)
                arrays[measure.name] = sketches_of(groups[1:] - 1, codes[1:], values, count)
        return arrays

    def _grow(self, size: int) -> None:
        for name, array in self._arrays.items():
            if array.size < size:
                grown = np.full(max(2 * array.size, size, 256), neutral_value(name, array.dtype), array.dtype)
                grown[: array.size] = array
                self._arrays[name] = grown


def neutral_value(name: str, kind: Any) -> Any:
    """Return the neutral element of a measure: its value over no rows."""
    kind = np.dtype(kind)
    if name.startswith("min("):
        return np.iinfo(np.int64).max if kind == np.int64 else np.inf
    if name.startswith("max("):
        return np.iinfo(np.int64).min if kind == np.int64 else -np.inf
    return kind.type(0)
