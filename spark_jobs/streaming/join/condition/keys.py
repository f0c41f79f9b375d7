"""Keys: 64-bit integers such that tuples can only be partners if the difference of their keys is within a band.

Each kind computes the key of a row on either side, and whether a row has one. Null and NaN match nothing, so they have
no key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from sqlglot import exp

from springline.spark_jobs.streaming.join.condition.checked_arithmetic import Columns, Ints, Mask, floats, ints
from springline.spark_jobs.streaming.join.kernels import mix_in, mix_in_texts
from springline.spark_jobs.streaming.join.wire import GREATEST, JoinSide, KeyBand
from springline.spark_jobs.streaming.sql.expressions import Expression

_BUCKETS = float(1 << 50)  # beyond this bucket on either side, numbers share the last one
_EQUAL, _NEIGHBOURS = KeyBand(0, 0), KeyBand(-1, 1)
Ends = tuple[Expression, Expression]


class JoinKeys(Protocol):
    """Computes keys; `key_band` says which right keys may match a left one."""

    @property
    def key_band(self) -> KeyBand:
        """Which right keys may match a left one."""

    def of(self, side: JoinSide, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """Return the key of each row of a side, and a mask of the rows that have one."""

    def names(self, side: JoinSide) -> tuple[str, ...]:
        """Return the columns from which keys of a side are computed."""

    def field(self, side: JoinSide) -> str | None:
        """Return the column of a side whose values are the keys; None if there is none."""


@dataclass(frozen=True)
class IntegerKey:
    """The key of an integer is the integer itself, that of a date, say, the integer that it lies in columns as."""

    ends: Ends
    key_band: KeyBand

    def of(self, side: JoinSide, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """Return the key of each row of a side, and a mask of the rows that have one."""
        return ints(self.ends[side].values(columns, rows))

    def names(self, side: JoinSide) -> tuple[str, ...]:
        """Return the columns from which keys of a side are computed."""
        return self.ends[side].columns

    def field(self, side: JoinSide) -> str | None:
        """Return the column of a side whose values are the keys; None if they are computed."""
        return self.ends[side].columns[0] if isinstance(self.ends[side].node, exp.Column) else None


@dataclass(frozen=True)
class FloatKey:
    """The key of a double is its bits, transformed so that they are ordered as the numbers."""

    ends: Ends
    key_band: KeyBand

    def of(self, side: JoinSide, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """Return the key of each row of a side, and a mask of the rows that have one."""
        numbers, valid = floats(self.ends[side].values(columns, rows))
        return order_preserving_bits(numbers), valid

    def names(self, side: JoinSide) -> tuple[str, ...]:
        """Return the columns from which keys of a side are computed."""
        return self.ends[side].columns

    def field(self, side: JoinSide) -> str | None:
        """Return None: keys are not the values of a column."""
        return None


@dataclass(frozen=True)
class BandKey:
    """The key of a number is its bucket, twice as wide as the band: partners are in the same bucket, or in neighbours.

    The width leaves room for rounding errors: a quotient below 2^50 is within 1/16 of the true one, and so are the
    differences and sums that were compared. Greater numbers share the last bucket.
    """

    ends: Ends
    width: float
    key_band: KeyBand = _NEIGHBOURS

    def of(self, side: JoinSide, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """Return the key of each row of a side, and a mask of the rows that have one."""
        numbers, valid = floats(self.ends[side].values(columns, rows))
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = np.floor(np.clip(numbers / self.width, -_BUCKETS, _BUCKETS))
        return np.where(valid, quotients, 0).astype(np.int64), valid

    def names(self, side: JoinSide) -> tuple[str, ...]:
        """Return the columns from which keys of a side are computed."""
        return self.ends[side].columns

    def field(self, side: JoinSide) -> str | None:
        """Return None: keys are not the values of a column."""
        return None


@dataclass(frozen=True)
class HashKey:
    """Several values, or texts, hashed to one key; equal keys do not imply equal values."""

    pairs: Sequence[Ends]
    key_band: KeyBand = _EQUAL

    def of(self, side: JoinSide, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """Return the key of each row of a side, and a mask of the rows that have one."""
        hashes, valid = np.zeros(rows, np.uint64), np.ones(rows, np.bool_)
        for ends in self.pairs if rows else ():
            array = ends[side].values(columns, rows)
            array = array.view(pa.string()) if pa.types.is_binary(array.type) else array
            if pa.types.is_string(array.type):
                present = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
                _, offsets, data = array.buffers()
                places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
                text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
                mix_in_texts(hashes, places, text)
            elif "float" in (kinds := (ends[0].type, ends[1].type)) or kinds[0] != kinds[1]:
                numbers, present = floats(array)
                mix_in(hashes, order_preserving_bits(numbers))
            else:
                integers, present = ints(array)
                mix_in(hashes, integers)
            valid &= present
        return hashes.view(np.int64), valid

    def names(self, side: JoinSide) -> tuple[str, ...]:
        """Return the columns from which keys of a side are computed."""
        return tuple(name for ends in self.pairs for name in ends[side].columns)

    def field(self, side: JoinSide) -> str | None:
        """Return None: keys are not the values of a column."""
        return None


def order_preserving_bits(numbers: np.ndarray) -> Ints:
    """Return the bits of doubles as integers in the same order; equal numbers have equal bits."""
    bits = (numbers + 0.0).view(np.int64)
    return np.asarray(np.where(bits < 0, bits ^ GREATEST, bits))
