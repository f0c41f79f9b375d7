"""Records as plain columns: what tables hand to each other, to snapshots, and to whoever asks what is unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError

ATTEMPTS = 63  # the last attempt: 6 bits, from 1
SLICES = 1 << 25

_COLUMNS = {
    "root": pa.uint64(), "attempt": pa.uint8(), "registered": pa.bool_(), "born": pa.uint32(), "value": pa.uint64(),
}  # fmt: skip
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()])

Ids = npt.NDArray[np.uint64]


class Items(NamedTuple):
    """Tracking records, by root: the attempt, whether the root is registered, its slice of time, the check value."""

    roots: Ids
    attempts: npt.NDArray[np.uint8]
    registered: npt.NDArray[np.bool_]
    born: npt.NDArray[np.uint32]
    values: Ids

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Items:
        """The inverse of `batch`."""
        return cls(*(batch.column(name).to_numpy(zero_copy_only=False) for name in _SCHEMA.names))

    def batch(self) -> pa.RecordBatch:
        """A row for each record: what snapshots and messages hold."""
        return pa.RecordBatch.from_arrays([pa.array(column) for column in self], schema=_SCHEMA)

    def sorted(self) -> Items:
        """The same in the order of roots."""
        return self.at(np.argsort(self.roots, kind="stable"))

    def at(self, rows: npt.NDArray[Any]) -> Items:
        """Some of them: by a mask, or by row numbers."""
        return Items(*(column[rows] for column in self))


class Completed(NamedTuple):
    """Roots that are complete, the slices in which they were registered, and the attempts that it took."""

    roots: Ids
    born: npt.NDArray[np.uint32]
    attempts: npt.NDArray[np.uint8]

    @classmethod
    def first(cls, roots: Ids, born: npt.NDArray[np.uint32]) -> Completed:
        """Roots of first attempts."""
        return cls(roots, born, np.broadcast_to(np.uint8(1), roots.shape))

    @classmethod
    def joined(cls, parts: Sequence[Completed]) -> Completed:
        """All of several, one after the other."""
        if len(parts) == 1:
            return parts[0]
        none = cls(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint8))
        return cls(*(np.concatenate(columns) for columns in zip(none, *parts, strict=True)))


def items(roots: Any, attempts: Any, registered: Any, born: Any, values: Any) -> Items:
    """Items of anything array-like; one attempt, registration or slice stands for all."""
    ids = np.asarray(roots, np.uint64)
    given = ((attempts, np.uint8), (registered, np.bool_), (born, np.uint32), (values, np.uint64))
    return Items(ids, *(np.broadcast_to(np.asarray(one, kind), ids.shape) for one, kind in given))


def together(parts: Sequence[Items]) -> Items:
    """All of several, in the order of roots."""
    chosen = [part for part in parts if part.roots.size]
    if not chosen:
        return items([], [], [], [], [])
    return Items(*(np.concatenate(columns) for columns in zip(*chosen, strict=True))).sorted()


def marks(attempts: npt.ArrayLike, registered: Any, born: Any) -> npt.NDArray[np.uint32]:
    """The 4 bytes of a slot beside root and value, as long as the longest given; raises `InvalidUpdateError`."""
    tries, slices = np.atleast_1d(np.asarray(attempts, np.int64)), np.atleast_1d(np.asarray(born, np.int64))
    if tries.size and not (tries.min() >= 1 and tries.max() <= ATTEMPTS):
        raise InvalidUpdateError(f"attempts {tries.min()} to {tries.max()}: a record has room for 1 to {ATTEMPTS}")
    if slices.size and not (slices.min() >= 0 and slices.max() < SLICES):
        raise InvalidUpdateError(f"slices {slices.min()} to {slices.max()}: a record has room for 0 to {SLICES - 1}")
    bits = np.asarray(registered, np.int64)
    return np.asarray(np.atleast_1d(tries | bits << 6 | slices << 7), np.uint32)
