"""A root's 64-bit id: the record's partition, offset and row, packed so that they can be unpacked.

From the highest bit: 12 bits of partition, 36 of offset, 16 of row. Ids sort as (partition, offset, row). The last id
is no root: it marks an empty slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from springline.spark_jobs.streaming.tracking.errors import InvalidRootError

PARTITION_BITS, OFFSET_BITS, ROW_BITS = 12, 36, 16
PARTITIONS, OFFSETS, ROWS = 1 << PARTITION_BITS, 1 << OFFSET_BITS, 1 << ROW_BITS
NO_ROOT = (1 << 64) - 1


class Root(NamedTuple):
    """Position of the record of a root: row 0 if the whole message is one root."""

    partition: int
    offset: int
    row: int


def root_id(partition: int, offset: int, row: int = 0) -> int:
    """Return the id of one root; raises `InvalidRootError`."""
    check_root_range(partition, offset, 1, row + 1 if row >= 0 else row)
    return partition << OFFSET_BITS + ROW_BITS | offset << ROW_BITS | row


def unpack_root_id(root: int) -> Root:
    """Unpack the id that `root_id` packed; raises `InvalidRootError`."""
    if not 0 <= root < NO_ROOT:
        raise InvalidRootError(f"{root} is not the id of a root: ids are 0 to {NO_ROOT - 1}")
    return Root(root >> OFFSET_BITS + ROW_BITS, root >> ROW_BITS & OFFSETS - 1, root & ROWS - 1)


def check_root_range(partition: int, offset: int, messages: int, rows: int) -> None:
    """Raise `InvalidRootError` unless all of `messages` from `offset`, with `rows` each, have valid ids."""
    if not 0 <= partition < PARTITIONS:
        raise InvalidRootError(f"partition {partition}: a root's id allows 0 to {PARTITIONS - 1}")
    if messages < 1 or not 0 <= offset <= OFFSETS - 1 - messages:
        raise InvalidRootError(
            f"partition {partition}, {messages} messages from offset {offset}: a root's id allows offsets 0 to "
            f"{OFFSETS - 2}"
        )
    if not 1 <= rows <= ROWS:
        raise InvalidRootError(
            f"partition {partition}, offset {offset}, row {rows - 1}: a root's id allows rows 0 to {ROWS - 1}; "
            f"send smaller messages, or track messages instead of rows"
        )


def roots_of(partition: int, offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return the ids of all rows of some messages, in their order."""
    if not offsets.size:
        return np.empty(0, np.uint64)
    firsts = np.uint64(root_id(partition, 0)) + (offsets.astype(np.uint64) << np.uint64(ROW_BITS))
    roots: npt.NDArray[np.uint64] = np.repeat(firsts, rows) + numbers_within(rows).astype(np.uint64)
    return roots


def numbers_within(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return for groups of so many elements the number of each element in its group, from 0.

    >>> numbers_within(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = np.cumsum(counts) - counts
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)
