"""Folds: one check value for all roots of a round of a spring, for as long as nothing is lost.

A fold is named by its first root. The spring registers it with the XOR of the ids of all tuples that it has sent for
its roots; each receiver acks the XOR of those that it has applied. At zero all of its roots are complete. A fold that
does not close is replaced by the records of its roots, if they can be distinguished (`by_row`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.ids import Ids, root_edges
from springline.spark_jobs.streaming.tracking.ring import AckerRing
from springline.spark_jobs.streaming.tracking.root_id import (
    OFFSET_BITS,
    OFFSETS,
    ROW_BITS,
    check_root_range,
    numbers_within,
    root_id,
    roots_of,
)

_LIST = pa.list_(pa.int64())
FOLD_SCHEMA = pa.schema(
    [
        ("fold", pa.uint64()), ("value", pa.uint64()), ("by_row", pa.bool_()), ("registered", pa.bool_()),
        ("tick", pa.uint32()), ("offsets", _LIST), ("messages", _LIST), ("rows", _LIST),
    ]
)  # fmt: skip
_RECORD_BYTES, _RANGE_BYTES = 22, 16  # of a fold, and of each of its ranges


class RowRanges(NamedTuple):
    """Ranges of consecutive messages of one partition with equally many rows: columns of the same length.

    `offsets` are those of the first messages, `messages` their numbers, `rows` the rows of each message.
    """

    offsets: npt.NDArray[np.int64]
    messages: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]

    @classmethod
    def of(cls, offsets: npt.ArrayLike, rows: npt.ArrayLike) -> RowRanges:
        """Return the ranges of single messages, which are in the order of their offsets."""
        positions, sizes = np.asarray(offsets, np.int64), np.asarray(rows, np.int64)
        if not positions.size:
            return cls(positions, positions, positions)
        cuts = np.flatnonzero((np.diff(positions) != 1) | (np.diff(sizes) != 0)) + 1
        firsts = np.concatenate([[0], cuts])
        return cls(positions[firsts], np.diff(firsts, append=positions.size), sizes[firsts])

    @property
    def root_count(self) -> int:
        """Rows of all messages."""
        return int((self.messages * self.rows).sum())

    def each_message(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the offset of every message, and its rows."""
        offsets = np.repeat(self.offsets, self.messages) + numbers_within(self.messages)
        return offsets, np.repeat(self.rows, self.messages)


_NO_RANGES = RowRanges.of([], [])


class Fold(NamedTuple):
    """The record of a fold: its first root, the check value, the messages of its roots, and the tick of registration.

    An unregistered one is only known by its acks, and has no messages.
    """

    first: int
    value: int
    ranges: RowRanges = _NO_RANGES
    by_row: bool = True
    registered: bool = False
    tick: int = 0

    @classmethod
    def registration(cls, partition: int, ranges: RowRanges, value: int, *, by_row: bool = True) -> Fold:
        """Return the registration of messages of a partition, at least one; raises `InvalidRootError`."""
        offset = int(ranges.offsets[-1])
        check_root_range(partition, offset, int(ranges.messages[-1]), int(ranges.rows.max()))
        return cls(root_id(partition, int(ranges.offsets[0])), value, ranges, by_row, True)

    @property
    def partition(self) -> int:
        """The partition of its messages."""
        return self.first >> OFFSET_BITS + ROW_BITS

    @property
    def offset(self) -> int:
        """The offset of its first message."""
        return self.first >> ROW_BITS & OFFSETS - 1

    @property
    def nbytes(self) -> int:
        """Bytes of its values."""
        return _RECORD_BYTES + _RANGE_BYTES * self.ranges.offsets.size

    @property
    def roots(self) -> Ids:
        """The ids of its roots, in order."""
        return roots_of(self.partition, *self.ranges.each_message())

    def merge(self, other: Fold) -> Fold:
        """Return the record with what another acker, or another message, has contributed to it."""
        base = self if self.registered else other
        return base._replace(value=self.value ^ other.value)


def folds_to_batch(folds: Iterable[Fold]) -> pa.RecordBatch:
    """Return a batch with a row for each fold, as in snapshots and messages, in the order of first roots."""
    ordered = sorted(folds, key=lambda fold: fold.first)
    scalars = (
        pa.array(np.array([getattr(fold, name) for fold in ordered], kind))
        for name, kind in (
            ("first", np.uint64), ("value", np.uint64), ("by_row", np.bool_), ("registered", np.bool_),
            ("tick", np.uint32),
        )
    )  # fmt: skip
    ranges = [fold.ranges for fold in ordered]
    ends = pa.array(np.cumsum([0, *(each.offsets.size for each in ranges)], dtype=np.int32))
    columns = (np.concatenate(parts) for parts in zip(_NO_RANGES, *ranges, strict=True))
    lists = (pa.ListArray.from_arrays(ends, pa.array(column)) for column in columns)
    return pa.RecordBatch.from_arrays([*scalars, *lists], schema=FOLD_SCHEMA)


def folds_of_batch(batch: pa.RecordBatch) -> list[Fold]:
    """The inverse of `folds_to_batch`."""
    if not batch.num_rows:
        return []
    scalars = (batch.column(name).to_pylist() for name in FOLD_SCHEMA.names[:5])
    lists = [batch.column(name) for name in FOLD_SCHEMA.names[5:]]
    ends = (lists[0].offsets.to_numpy() - lists[0].offsets[0].as_py()).tolist()
    columns = [column.flatten().to_numpy() for column in lists]
    folds = []
    for (begin, end), scalar in zip(pairwise(ends), zip(*scalars, strict=True), strict=True):
        first, value, by_row, registered, tick = scalar
        ranges = RowRanges(*(column[begin:end] for column in columns))
        folds.append(Fold(first, value, ranges, by_row, registered, tick))
    return folds


def concat_roots(folds: Sequence[Fold]) -> Ids:
    """Return the roots of several folds."""
    return np.concatenate([np.empty(0, np.uint64), *(fold.roots for fold in folds)])


def fold_owners(ring: AckerRing, firsts: Ids) -> npt.NDArray[np.uint16]:
    """Return the acker of each fold: that of a root with its mixed id, since a ring spreads neighbours evenly."""
    return ring.owners_of(root_edges(firsts, 0))
