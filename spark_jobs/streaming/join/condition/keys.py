"""Keys: 64-bit whole numbers such that tuples can only be partners if their keys are within a reach of each other.

Each kind makes the key of a row on either side, and says whether a row has one. Null and NaN match nothing, so they
have none.
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
from springline.spark_jobs.streaming.join.wire import GREATEST, Reach, Side
from springline.spark_jobs.streaming.sql.expressions import Expression

_BUCKETS = float(1 << 50)  # beyond so many on either side, numbers share the last one
_EQUAL, _NEIGHBOURS = Reach(0, 0), Reach(-1, 1)
Ends = tuple[Expression, Expression]


class Keys(Protocol):
    """How keys are made; `reach` says which right keys may match a left one."""

    @property
    def reach(self) -> Reach:
        """Which right keys may match a left one."""

    def of(self, side: Side, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """The key of each row of a side, and which rows have one."""

    def names(self, side: Side) -> tuple[str, ...]:
        """The columns that keys of a side are made of."""

    def field(self, side: Side) -> str | None:
        """The column of a side that is its key, as it is; None where there is none."""


@dataclass(frozen=True)
class Whole:
    """A whole number is its key."""

    ends: Ends
    reach: Reach

    def of(self, side: Side, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """The key of each row of a side, and which rows have one."""
        return ints(self.ends[side].values(columns, rows))

    def names(self, side: Side) -> tuple[str, ...]:
        """The columns that keys of a side are made of."""
        return self.ends[side].columns

    def field(self, side: Side) -> str | None:
        """The column of a side that is its key, as it is; None where it is worked out."""
        return self.ends[side].columns[0] if isinstance(self.ends[side].node, exp.Column) else None


@dataclass(frozen=True)
class Ordered:
    """A double's key is its bits, turned so that they are in the order of the numbers."""

    ends: Ends
    reach: Reach

    def of(self, side: Side, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """The key of each row of a side, and which rows have one."""
        found, valid = floats(self.ends[side].values(columns, rows))
        return in_order(found), valid

    def names(self, side: Side) -> tuple[str, ...]:
        """The columns that keys of a side are made of."""
        return self.ends[side].columns

    def field(self, side: Side) -> str | None:
        """None: keys are not the values of a column."""
        return None


@dataclass(frozen=True)
class Buckets:
    """A number's key is its bucket, twice as wide as partners may differ: they are in one, or in neighbours.

    The width leaves room for what is lost by rounding: a quotient below 2^50 is within 1/16 of the true one, and so
    are the differences and sums that were compared. What is beyond shares the last bucket.
    """

    ends: Ends
    width: float
    reach: Reach = _NEIGHBOURS

    def of(self, side: Side, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """The key of each row of a side, and which rows have one."""
        found, valid = floats(self.ends[side].values(columns, rows))
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = np.floor(np.clip(found / self.width, -_BUCKETS, _BUCKETS))
        return np.where(valid, quotients, 0).astype(np.int64), valid

    def names(self, side: Side) -> tuple[str, ...]:
        """The columns that keys of a side are made of."""
        return self.ends[side].columns

    def field(self, side: Side) -> str | None:
        """None: keys are not the values of a column."""
        return None


@dataclass(frozen=True)
class Hashed:
    """Several values, or texts, hashed to one key; equal keys need not be equal values."""

    pairs: Sequence[Ends]
    reach: Reach = _EQUAL

    def of(self, side: Side, columns: Columns, rows: int) -> tuple[Ints, Mask]:
        """The key of each row of a side, and which rows have one."""
        found, valid = np.zeros(rows, np.uint64), np.ones(rows, np.bool_)
        for ends in self.pairs if rows else ():
            array = ends[side].values(columns, rows)
            if pa.types.is_string(array.type):
                there = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
                _, offsets, data = array.buffers()
                places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + rows + 1]
                text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
                mix_in_texts(found, places, text)
            elif "float" in (ends[0].type, ends[1].type):
                numbers, there = floats(array)
                mix_in(found, in_order(numbers))
            else:
                whole, there = ints(array.cast(pa.int64()))
                mix_in(found, whole)
            valid &= there
        return found.view(np.int64), valid

    def names(self, side: Side) -> tuple[str, ...]:
        """The columns that keys of a side are made of."""
        return tuple(name for ends in self.pairs for name in ends[side].columns)

    def field(self, side: Side) -> str | None:
        """None: keys are not the values of a column."""
        return None


def in_order(numbers: np.ndarray) -> Ints:
    """The bits of doubles as whole numbers that are in the same order; those that are equal are the same."""
    bits = (numbers + 0.0).view(np.int64)
    return np.asarray(np.where(bits < 0, bits ^ GREATEST, bits))
