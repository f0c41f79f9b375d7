"""Wire format of a tracker's clients: each message is an Arrow stream of new roots and acks, one per row.

root      uint64: the root's id in the topology; any but the last one, 2^64 - 1
attempt   uint8: the number of the attempt, from 1 to 63
begins    bool: whether the root begins with this row; otherwise the row is an ack
value     uint64: of a root that begins, the XOR of the ids of the edges on which it left; of an ack, the XOR of the id
          of the processed edge and of those that were emitted
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
MOST = 1 << 16  # rows per message


def requests_topic(job: str) -> str:
    """Return the topic to which clients of a tracker write."""
    return f"{job}.requests"


def results_topic(job: str) -> str:
    """Return the topic to which a tracker writes the outcomes of roots."""
    return f"{job}.results"


class TrackerRequests(NamedTuple):
    """New roots and acks, as columns."""

    roots: Ids
    attempts: npt.NDArray[np.uint8]
    begins: npt.NDArray[np.bool_]
    values: Ids

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, bool, int]]) -> TrackerRequests:
        """Return requests from rows in the order of the columns."""
        row_list = list(rows)
        return cls(
            np.array([root for root, _, _, _ in row_list], np.uint64),
            np.array([attempt for _, attempt, _, _ in row_list], np.uint8),
            np.array([begins for _, _, begins, _ in row_list], np.bool_),
            np.array([value for _, _, _, value in row_list], np.uint64),
        )

    @classmethod
    def concat(cls, parts: Iterable[TrackerRequests]) -> TrackerRequests:
        """Return the rows of all parts."""
        return cls(*(np.concatenate(columns) for columns in zip(cls.of([]), *parts, strict=True)))

    @classmethod
    def read(cls, value: bytes | memoryview) -> TrackerRequests:
        """Decode a message of a client; raises `InvalidUpdateError` with the reason."""
        try:
            table = pa.ipc.open_stream(value).read_all()
            table.validate(full=True)  # before any value is read
            actual = ", ".join(f"{one.name} {one.type}" for one in table.schema)
        except Exception as error:  # anything Arrow raises: a name that is not UTF-8 is found only when it is read
            raise InvalidUpdateError(f"not an Arrow stream: {error}") from error
        if not table.schema.equals(SCHEMA):
            expected = ", ".join(f"{one.name} {one.type}" for one in SCHEMA)
            raise InvalidUpdateError(f"its columns are {actual or 'none'}; they must be {expected}")
        table = table.combine_chunks()
        if table.num_rows > MOST:
            raise InvalidUpdateError(f"{table.num_rows:,} rows in a message; {MOST:,} at most")
        if any(column.null_count for column in table.columns):
            raise InvalidUpdateError("a value is missing")
        requests = cls(*(column.to_numpy() for column in table.columns))
        if (requests.roots == np.uint64(NO_ROOT)).any():
            raise InvalidUpdateError(f"{NO_ROOT} is not the id of a root: ids are 0 to {NO_ROOT - 1}")
        if ((requests.attempts < 1) | (requests.attempts > ATTEMPTS)).any():
            least, most = requests.attempts.min(), requests.attempts.max()
            raise InvalidUpdateError(f"attempts {least} to {most}: they count from 1 to {ATTEMPTS}")
        return requests

    def encode(self) -> bytes:
        """The inverse of `read`."""
        columns = [pa.array(column, field.type) for column, field in zip(self, SCHEMA, strict=True)]
        return arrow_bytes(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))

    def select(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice) -> TrackerRequests:
        """Return some of the rows."""
        return TrackerRequests(self.roots[rows], self.attempts[rows], self.begins[rows], self.values[rows])
