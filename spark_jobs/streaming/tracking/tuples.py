"""Batches of tuples that a spring sends to a receiver: a row for consecutive tuples of a message, or of its root.

folded   tuples of a first attempt: their ids are folded into one check value
retried  tuples of roots that are sent again, in a later attempt
audit    no tuples: asks the receiver which of them it has applied, and for acks of the first attempt, by root

A row names the message, or the root, and the number of its first tuple, among those of the message for this receiver.
The ids of its tuples follow from that.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.ids import Ids

_HEADER = b"tuples"


def _schema_of(tuples: pa.DataType) -> pa.Schema:
    columns = (("root", pa.uint64()), ("first", pa.uint32()), ("tuples", tuples))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


_NUMBERS = _schema_of(pa.uint32())
_LISTS: dict[pa.DataType, pa.Schema] = {}  # by the type of the contents


class TupleKind(StrEnum):
    """What a batch of tuples is for."""

    FOLDED = "folded"
    RETRIED = "retried"
    AUDIT = "audit"


class TupleBatch(NamedTuple):
    """Tuples by row of a batch: the root or the message, the number of the first, and how many they are.

    `values` are the contents of all tuples, one after the other; None in an audit. `fold` is the first root of the fold
    of folded tuples, `attempt` that of the others.
    """

    kind: TupleKind
    roots: Ids
    firsts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    values: pa.Array = None
    fold: int = 0
    attempt: int = 1

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> TupleBatch:
        """Read a batch; raises `InvalidUpdateError` if its tuples are not tracked."""
        content = (batch.schema.metadata or {}).get(_HEADER)
        if content is None:
            raise InvalidUpdateError(f"a batch of tuples without tracking: its columns are {batch.schema.names}")
        header: dict[str, Any] = json.loads(content)
        roots, firsts = (batch.column(name).to_numpy() for name in ("root", "first"))
        column, values = batch.column("tuples"), None
        if pa.types.is_list(column.type):
            counts, values = np.diff(column.offsets.to_numpy()), column.flatten()
        else:
            counts = column.to_numpy()
        return cls(
            TupleKind(header["kind"]), roots, firsts.astype(np.int64), counts.astype(np.int64), values,
            header.get("fold", 0), header.get("attempt", 1),
        )  # fmt: skip

    def to_batch(self) -> pa.RecordBatch:
        """Encode the batch: its column `tuples` has lists of contents, or in an audit numbers of tuples."""
        roots, firsts = pa.array(self.roots), pa.array(self.firsts.astype(np.uint32))
        if self.values is None:
            tuples, schema = pa.array(self.counts.astype(np.uint32)), _NUMBERS
        else:
            ends = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int32)
            tuples, schema = pa.ListArray.from_arrays(pa.array(ends), self.values), _LISTS.get(self.values.type)
            if schema is None:
                schema = _LISTS[self.values.type] = _schema_of(tuples.type)
        names = {"fold": self.fold} if self.kind is TupleKind.FOLDED else {"attempt": self.attempt}
        header = json.dumps({"kind": self.kind, **names})
        return pa.RecordBatch.from_arrays([roots, firsts, tuples], schema=schema.with_metadata({_HEADER: header}))
