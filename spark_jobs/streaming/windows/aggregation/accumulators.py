"""Measures of groups, added up row by row or slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.kernels.hash_tables import Codes, Flags, PairTable
from springline.spark_jobs.streaming.kernels.sums import (
    add_counts,
    add_ones,
    add_sums_in_pairs,
    add_wholes_in_pairs,
    keep_greatest,
    keep_least,
)
from springline.spark_jobs.streaming.windows.aggregation.dictionary import Coder
from springline.spark_jobs.streaming.windows.aggregation.sketches import sketches_of
from springline.spark_jobs.streaming.windows.measures import ROWS, Measure, rest

Arrays = dict[str, npt.NDArray[Any]]


class Totals:
    """The measures of groups that are numbered from 1; those left out have a negative number."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self._measures = tuple(sorted(measures, key=lambda measure: measure.kind == "rows"))
        self._as_rows: set[str] = set()  # counts of values of which none was null so far
        self._arrays: Arrays = {}
        self._pairs: dict[str, PairTable] = {}
        for measure in self._measures:
            if measure.kind == "count":
                self._as_rows.add(measure.name)
            if measure.kind == "distinct":
                self._pairs[measure.name] = PairTable()
                continue
            kind = np.int64 if measure.exact else np.float64
            self._arrays[measure.name] = np.full(0, neutral(measure.name, kind), kind)
            if measure.paired:
                self._arrays[rest(measure.name)] = np.zeros(0, kind)

    def add(self, groups: Codes, count: int, coder: Coder) -> None:
        """Add the rows of a chunk; `groups` is the group of each, `count` the greatest of all so far."""
        self._grow(count + 1)
        for measure in self._measures:
            if measure.argument is None:
                add_ones(groups, self._arrays[measure.name])
            elif measure.kind == "distinct":
                values = coder.codes(measure.argument)
                held = np.where(values > 0, groups, np.int32(-1))
                self._pairs[measure.name].codes(held, values, count, int(values.max(initial=0)))
            elif measure.kind == "count" and measure.argument.type not in ("int", "float"):
                self._count(measure.name, groups, coder.codes(measure.argument) > 0)
            else:
                self._add_numbers(measure, groups, coder)

    def _add_numbers(self, measure: Measure, groups: Codes, coder: Coder) -> None:
        assert measure.argument is not None
        numbers = coder.numbers(measure.argument)
        into = self._arrays[measure.name]
        if measure.kind == "count":
            self._count(measure.name, groups, numbers.valid)
        elif measure.paired:
            add_pairs = add_wholes_in_pairs if measure.exact else add_sums_in_pairs
            add_pairs(groups, numbers.values, numbers.valid, into, self._arrays[rest(measure.name)])
        else:
            keep = keep_least if measure.kind == "min" else keep_greatest
            keep(groups, numbers.values, numbers.valid, into)

    def _count(self, name: str, groups: Codes, valid: Flags) -> None:
        """Count values; while none is null they are as many as rows, which are counted after them."""
        if name in self._as_rows:
            if not valid.size or valid.all():
                return
            self._as_rows.discard(name)
            self._arrays[name] = self._arrays[ROWS.name].copy()
        if valid.size:
            add_counts(groups, valid, self._arrays[name])
        else:
            add_ones(groups, self._arrays[name])

    def arrays(self, count: int, coder: Coder) -> dict[str, Any]:
        """The measures of groups 1 to `count`; sketches as a list of bytes."""
        self._grow(count + 1)
        named = {name: self._arrays[ROWS.name if name in self._as_rows else name] for name in self._arrays}
        found: dict[str, Any] = {name: array[1 : count + 1] for name, array in named.items()}
        for measure in self._measures:
            if measure.kind == "distinct" and measure.argument is not None:
                groups, codes = self._pairs[measure.name].halves()
                values = coder.values(measure.argument)
                found[measure.name] = sketches_of(groups[1:] - 1, codes[1:], values, count)
        return found

    def _grow(self, size: int) -> None:
        for name, array in self._arrays.items():
            if array.size < size:
                grown = np.full(max(2 * array.size, size, 256), neutral(name, array.dtype), array.dtype)
                grown[: array.size] = array
                self._arrays[name] = grown


def neutral(name: str, kind: Any) -> Any:
    """What a measure is of no value at all."""
    kind = np.dtype(kind)
    if name.startswith("min("):
        return np.iinfo(np.int64).max if kind == np.int64 else np.inf
    if name.startswith("max("):
        return np.iinfo(np.int64).min if kind == np.int64 else -np.inf
    return kind.type(0)
