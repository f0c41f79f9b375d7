"""What stages and ackers tell each other: record batches whose metadata says which kind they are.

registrations   ranges of roots, with the values of those that the acker holds, in the order of their ids
acks            roots with what is to be XORed into their check values; in one attempt
retries         the same, of roots that are sent again: they are registered so, one by one
spans           ranges of messages, each a root, with one value for all roots of a range
sources         the same, as registrations
records         tracking records that another acker held
again           roots whose time is over: they are to be sent again, in that attempt
gone            roots that are given up, with the last attempt
done            roots that are complete, with the attempt: told of roots that others have named

Whoever sends by a ring names its epoch and its ackers, so that an acker that has not heard of it yet hears it here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.records import Ids, Items

_U16, _U32, _U64 = pa.uint16(), pa.uint32(), pa.uint64()
_RANGES = pa.schema(
    [("partition", _U16), ("offset", _U64), ("messages", _U32), ("rows", _U32), ("values", pa.list_(_U64))]
)
_ROOTS = pa.schema([("root", _U64), ("value", _U64)])
_SPANS = pa.schema([("partition", _U16), ("offset", _U64), ("messages", _U32), ("value", _U64)])
_NAMED = pa.schema([("root", _U64), ("attempt", pa.uint8())])


class Kind(StrEnum):
    """What a batch tells."""

    REGISTRATIONS = "registrations"
    ACKS = "acks"
    RETRIES = "retries"
    SPANS = "spans"
    SOURCES = "sources"
    RECORDS = "records"
    AGAIN = "again"
    GONE = "gone"
    DONE = "done"


class Span(NamedTuple):
    """Messages of a partition from an offset on, and a value for each."""

    partition: int
    offset: int
    messages: int
    value: int


@dataclass(frozen=True)
class Told:
    """A batch with what its metadata says: `epoch` of the ring and its ackers, if any; `through` which offset of which
    partition the source is registered; the attempt."""

    kind: Kind
    batch: pa.RecordBatch
    attempt: int = 1
    epoch: int = 0
    ackers: tuple[int, ...] = ()
    through: Mapping[int, int] | None = None

    @staticmethod
    def read(value: bytes | memoryview) -> Told:
        """A message's value; raises `InvalidUpdateError` where nobody here wrote it."""
        try:
            batch = pa.ipc.open_stream(value).read_next_batch()
            told: dict[str, Any] = json.loads(batch.schema.metadata[b"told"])
            through = {int(partition): offset for partition, offset in told.get("through", {}).items()}
            return Told(
                Kind(told["kind"]), batch, told.get("attempt", 1), told.get("epoch", 0),
                tuple(told.get("ackers", ())), through,
            )  # fmt: skip
        except (pa.ArrowInvalid, KeyError, ValueError, TypeError) as error:
            raise InvalidUpdateError(f"a message for an acker that no stage of ours has written: {error}") from error

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column's values."""
        found: npt.NDArray[Any] = self.batch.column(name).to_numpy(zero_copy_only=False)
        return found

    def spans(self) -> list[Span]:
        """The ranges of a batch of them."""
        columns = (self.column(name).tolist() for name in _SPANS.names)
        return [Span(*row) for row in zip(*columns, strict=True)]

    def items(self) -> Items:
        """The records of a batch of them."""
        return Items.of(self.batch)


@dataclass(frozen=True)
class Telling:
    """Writes batches under one epoch of the ring."""

    epoch: int
    ackers: Sequence[int]

    def registrations(
        self, partition: int, offsets: npt.ArrayLike, rows: npt.ArrayLike, counts: npt.ArrayLike, values: Ids,
        through: int,
    ) -> pa.RecordBatch:  # fmt: skip
        """Messages of one partition, whose roots are rows: `counts` of each message's roots are the acker's."""
        at = np.asarray(offsets, np.uint64)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(values, _U64))
        columns = [
            np.full(at.size, partition, np.uint16), at, np.ones(at.size, np.uint32), np.asarray(rows, np.uint32),
        ]  # fmt: skip
        return self._batch(
            [*map(pa.array, columns), lists], _RANGES, Kind.REGISTRATIONS, through={str(partition): through}
        )

    def acks(self, roots: Ids, values: Ids, attempt: int, *, kind: Kind = Kind.ACKS) -> pa.RecordBatch:
        """Acks, or retries, of one attempt."""
        return self._batch([pa.array(roots), pa.array(values)], _ROOTS, kind, attempt=attempt)

    def spans(self, found: Sequence[Span], *, kind: Kind = Kind.SPANS, **told: Any) -> pa.RecordBatch:
        """Acks, or registrations, of ranges of messages."""
        columns = zip(*found, strict=True) if found else ((), (), (), ())
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, _SPANS, strict=True)]
        return self._batch(arrays, _SPANS, kind, **told)

    def records(self, found: Items) -> pa.RecordBatch:
        """Records on their way to another acker."""
        batch = found.batch()
        return self._batch(batch.columns, batch.schema, Kind.RECORDS)

    def named(self, roots: Ids, attempts: npt.NDArray[np.uint8], kind: Kind) -> pa.RecordBatch:
        """Roots to be sent again, given up, or complete."""
        return self._batch([pa.array(roots), pa.array(attempts)], _NAMED, kind)

    def _batch(self, columns: Sequence[pa.Array], schema: pa.Schema, kind: Kind, **told: Any) -> pa.RecordBatch:
        about = {"kind": kind, "epoch": self.epoch, "ackers": list(self.ackers), **told}
        return pa.RecordBatch.from_arrays(list(columns), schema=schema.with_metadata({"told": json.dumps(about)}))
