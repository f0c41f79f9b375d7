"""What clients of a tracker write: messages that each hold one Arrow stream of begun roots and acks, a row each.

root      uint64: the root's id, as the topology names it; all but the last one, 2^64 - 1
attempt   uint8: which time the root is sent, from 1 to 63
begins    bool: whether the root begins with this row; otherwise the row is an ack
value     uint64: of a root that begins, the ids of the edges that left for it, XORed; of an ack, the id of the edge
          that was processed and of those that were emitted, XORed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.records import ATTEMPTS, Ids
from springline.spark_jobs.streaming.tracking.root_id import NO_ROOT

SCHEMA = pa.schema([("root", pa.uint64()), ("attempt", pa.uint8()), ("begins", pa.bool_()), ("value", pa.uint64())])
MOST = 1 << 16  # rows of a message


def asks_topic(job: str) -> str:
    """Where clients of a tracker write."""
    return f"{job}.asks"


def results_topic(job: str) -> str:
    """Where a tracker tells what became of roots."""
    return f"{job}.results"


class Asks(NamedTuple):
    """Begun roots and acks, as columns."""

    roots: Ids
    attempts: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.bool_]
    values: Ids

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, bool, int]]) -> Asks:
        """Of rows in the order of the columns."""
        told = list(rows)
        return cls(
            np.array([root for root, _, _, _ in told], np.uint64),
            np.array([attempt for _, attempt, _, _ in told], np.uint8),
            np.array([begins for _, _, begins, _ in told], np.bool_),
            np.array([value for _, _, _, value in told], np.uint64),
        )

    @classmethod
    def together(cls, parts: Iterable[Asks]) -> Asks:
        """All rows of several."""
        return cls(*(np.concatenate(columns) for columns in zip(cls.of([]), *parts, strict=True)))

    @classmethod
    def read(cls, value: bytes | memoryview) -> Asks:
        """A message of a client; raises `InvalidUpdateError`, which says what is wrong with it."""
        try:
            table = pa.ipc.open_stream(value).read_all()
            table.validate(full=True)  # before anything looks at a value
            told = ", ".join(f"{one.name} {one.type}" for one in table.schema)
        except Exception as error:  # whatever Arrow raises: a name that is not UTF-8 is found only when it is read
            raise InvalidUpdateError(f"not an Arrow stream: {error}") from error
        if not table.schema.equals(SCHEMA):
            wanted = ", ".join(f"{one.name} {one.type}" for one in SCHEMA)
            raise InvalidUpdateError(f"its columns are {told or 'none'}; they must be {wanted}")
        table = table.combine_chunks()
        if table.num_rows > MOST:
            raise InvalidUpdateError(f"{table.num_rows:,} rows in a message; {MOST:,} at most")
        if any(column.null_count for column in table.columns):
            raise InvalidUpdateError("a value is missing")
        found = cls(*(column.to_numpy() for column in table.columns))
        if (found.roots == np.uint64(NO_ROOT)).any():
            raise InvalidUpdateError(f"{NO_ROOT} names no root: ids are 0 to {NO_ROOT - 1}")
        if ((found.attempts < 1) | (found.attempts > ATTEMPTS)).any():
            least, most = found.attempts.min(), found.attempts.max()
            raise InvalidUpdateError(f"attempts {least} to {most}: they count from 1 to {ATTEMPTS}")
        return found

    def encode(self) -> bytes:
        """The inverse of `read`."""
        columns = [pa.array(column, field.type) for column, field in zip(self, SCHEMA, strict=True)]
        return arrow_bytes(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))

    def at(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> Asks:
        """Some of the rows."""
        return Asks(self.roots[rows], self.attempts[rows], self.begins[rows], self.values[rows])
