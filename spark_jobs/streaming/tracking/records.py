"""Tracking records as plain columns: exchanged between tables, stored in snapshots, and returned to callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError

ATTEMPTS = 63  # the greatest attempt: 6 bits, from 1
SLICES = 1 << 25

_COLUMNS = {
    "root": pa.uint64(), "attempt": pa.uint8(), "registered": pa.bool_(), "tick": pa.uint32(), "value": pa.uint64(),
}  # fmt: skip
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])

Ids = npt.NDArray[np.uint64]


class TrackingRecords(NamedTuple):
    """Tracking records, as columns: root, attempt, whether the root is registered, its tick, and the check value."""

    roots: Ids
    attempts: npt.NDArray[np.uint8]
    registered: npt.NDArray[np.bool_]
    ticks: npt.NDArray[np.uint32]
    values: Ids

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> TrackingRecords:
        """The inverse of `to_batch`."""
        return cls(*(batch.column(name).to_numpy(zero_copy_only=False) for name in _SCHEMA.names))

    def to_batch(self) -> pa.RecordBatch:
        """Return a batch with a row for each record, as in snapshots and messages."""
        return pa.RecordBatch.from_arrays([pa.array(column) for column in self], schema=_SCHEMA)

    def sorted(self) -> TrackingRecords:
        """Return the records in the order of roots."""
        return self.select(np.argsort(self.roots, kind="stable"))

    def select(self, rows: npt.NDArray[Any]) -> TrackingRecords:
        """Return some of the records: by a mask, or by row numbers."""
        return TrackingRecords(*(column[rows] for column in self))


class CompletedRoots(NamedTuple):
    """Completed roots, the ticks in which they were registered, and their attempts."""

    roots: Ids
    ticks: npt.NDArray[np.uint32]
    attempts: npt.NDArray[np.uint8]

    @classmethod
    def first(cls, roots: Ids, ticks: npt.NDArray[np.uint32]) -> CompletedRoots:
        """Return roots completed in their first attempt."""
        return cls(roots, ticks, np.broadcast_to(np.uint8(1), roots.shape))

    @classmethod
    def concat(cls, parts: Sequence[CompletedRoots]) -> CompletedRoots:
        """Concatenate several parts."""
        if len(parts) == 1:
            return parts[0]
        none = cls(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint8))
        return cls(*(np.concatenate(columns) for columns in zip(none, *parts, strict=True)))


def tracking_records(roots: Any, attempts: Any, registered: Any, ticks: Any, values: Any) -> TrackingRecords:
    """Return records from array-likes; a single attempt, registration or tick applies to all."""
    ids = np.asarray(roots, np.uint64)
    columns = ((attempts, np.uint8), (registered, np.bool_), (ticks, np.uint32), (values, np.uint64))
    return TrackingRecords(ids, *(np.broadcast_to(np.asarray(one, kind), ids.shape) for one, kind in columns))


def merge_records(parts: Sequence[TrackingRecords]) -> TrackingRecords:
    """Merge several parts, in the order of roots."""
    non_empty = [part for part in parts if part.roots.size]
    if not non_empty:
        return tracking_records([], [], [], [], [])
    return TrackingRecords(*(np.concatenate(columns) for columns in zip(*non_empty, strict=True))).sorted()


def pack_marks(attempts: npt.ArrayLike, registered: Any, ticks: Any) -> npt.NDArray[np.uint32]:
    """Pack attempt, registration and tick into the 4 bytes of a slot's mark; raises `InvalidUpdateError`."""
    tries, slices = np.atleast_1d(np.asarray(attempts, np.int64)), np.atleast_1d(np.asarray(ticks, np.int64))
    if tries.size and not (tries.min() >= 1 and tries.max() <= ATTEMPTS):
        raise InvalidUpdateError(f"attempts {tries.min()} to {tries.max()}: a record allows 1 to {ATTEMPTS}")
    if slices.size and not (slices.min() >= 0 and slices.max() < SLICES):
        raise InvalidUpdateError(f"slices {slices.min()} to {slices.max()}: a record allows 0 to {SLICES - 1}")
    bits = np.asarray(registered, np.int64)
    return np.asarray(np.atleast_1d(tries | bits << 6 | slices << 7), np.uint32)
