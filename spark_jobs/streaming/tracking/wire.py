"""Wire format between stages and ackers: record batches whose metadata names their kind.

folds           folds that a spring has sent: one record for all roots of a round
fold-acks       folds with the value to XOR into their check values
registrations   ranges of roots, with the values of those that the acker holds, in the order of their ids
acks            roots with the value to XOR into their check values; of one attempt
retries         the same, for roots that are sent again: registers them individually
records         tracking records that another acker held
fold-records    folds that belong to another acker now
audit-requests  folds that did not close: their roots are to be registered individually
replay-requests roots that timed out: to be sent again, in that attempt
failed          roots that failed for good, with the last attempt
completed       completed roots, with the attempt: sent only for roots that clients have named

Every sender that uses a ring names its epoch and its ackers, so that an acker learns of a new ring from the message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from springline.spark_jobs.streaming.tracking.errors import InvalidUpdateError
from springline.spark_jobs.streaming.tracking.folds import Fold, folds_of_batch, folds_to_batch
from springline.spark_jobs.streaming.tracking.records import Ids, TrackingRecords

_U16, _U32, _U64 = pa.uint16(), pa.uint32(), pa.uint64()
_RANGES = pa.schema(
    [("partition", _U16), ("offset", _U64), ("messages", _U32), ("rows", _U32), ("values", pa.list_(_U64))]
)
_ROOTS = pa.schema([("root", _U64), ("value", _U64)])
_FOLDS = pa.schema([("fold", _U64), ("value", _U64)])
_ROOT_ATTEMPTS = pa.schema([("root", _U64), ("attempt", pa.uint8())])


class MessageKind(StrEnum):
    """The kind of a batch."""

    FOLDS = "folds"
    FOLD_ACKS = "fold-acks"
    REGISTRATIONS = "registrations"
    ACKS = "acks"
    RETRIES = "retries"
    RECORDS = "records"
    FOLD_RECORDS = "fold-records"
    AUDIT_REQUESTS = "audit-requests"
    REPLAY_REQUESTS = "replay-requests"
    FAILED = "failed"
    COMPLETED = "completed"


@dataclass(frozen=True)
class AckMessage:
    """A batch with its metadata: attempt, `epoch` and `ackers` of the ring, if any, and `registered_up_to`.

    `registered_up_to` is, by partition, the offset before which the source is registered. `age` is how many ticks ago
    the roots of an audited fold were registered with it; None: they are registered for the first time.
    """

    kind: MessageKind
    batch: pa.RecordBatch
    attempt: int = 1
    epoch: int = 0
    ackers: tuple[int, ...] = ()
    registered_up_to: Mapping[int, int] | None = None
    age: int | None = None

    @staticmethod
    def read(value: bytes | memoryview) -> AckMessage:
        """Decode a message's value; raises `InvalidUpdateError` if no stage of ours has written it."""
        try:
            batch = pa.ipc.open_stream(value).read_next_batch()
            metadata: dict[str, Any] = json.loads(batch.schema.metadata[b"header"])
            registered_up_to = {
                int(partition): offset for partition, offset in metadata.get("registered_up_to", {}).items()
            }
            return AckMessage(
                MessageKind(metadata["kind"]), batch, metadata.get("attempt", 1), metadata.get("epoch", 0),
                tuple(metadata.get("ackers", ())), registered_up_to, metadata.get("age"),
            )  # fmt: skip
        except (pa.ArrowInvalid, KeyError, ValueError, TypeError) as error:
            raise InvalidUpdateError(f"a message to an acker from another writer: {error}") from error

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column's values."""
        values: npt.NDArray[Any] = self.batch.column(name).to_numpy(zero_copy_only=False)
        return values

    def folds(self) -> list[Fold]:
        """Return the folds of a batch of folds."""
        return folds_of_batch(self.batch)

    def records(self) -> TrackingRecords:
        """Return the records of a batch of records."""
        return TrackingRecords.of(self.batch)


@dataclass(frozen=True)
class AckEncoder:
    """Encodes batches under one epoch of the ring."""

    epoch: int
    ackers: Sequence[int]

    def folds(
        self, folds: Iterable[Fold], kind: MessageKind, *, registered_up_to: Mapping[int, int] = MappingProxyType({})
    ) -> pa.RecordBatch:
        """Return folds; `registered_up_to` has by partition the offset before which it is registered."""
        batch = folds_to_batch(folds)
        partitions = {str(partition): offset for partition, offset in registered_up_to.items()}
        return self._batch(batch.columns, batch.schema, kind, registered_up_to=partitions)

    def fold_acks(self, folds: Ids, values: Ids) -> pa.RecordBatch:
        """Return acks of folds, by first root."""
        return self._batch([pa.array(folds), pa.array(values)], _FOLDS, MessageKind.FOLD_ACKS)

    def registrations(
        self, partition: int, offsets: npt.ArrayLike, rows: npt.ArrayLike, counts: npt.ArrayLike, values: Ids, *,
        registered_up_to: int | None = None, age: int | None = None,
    ) -> pa.RecordBatch:  # fmt: skip
        """Return registrations of messages of one partition; of each message's rows, `counts` are the acker's roots."""
        message_offsets = np.asarray(offsets, np.uint64)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(values, _U64))
        columns = [
            np.full(message_offsets.size, partition, np.uint16), message_offsets,
            np.ones(message_offsets.size, np.uint32), np.asarray(rows, np.uint32),
        ]  # fmt: skip
        return self._batch(
            [*map(pa.array, columns), lists],
            _RANGES,
            MessageKind.REGISTRATIONS,
            registered_up_to={} if registered_up_to is None else {str(partition): registered_up_to},
            age=age,
        )

    def acks(self, roots: Ids, values: Ids, attempt: int, *, kind: MessageKind = MessageKind.ACKS) -> pa.RecordBatch:
        """Return acks, or retries, of one attempt."""
        return self._batch([pa.array(roots), pa.array(values)], _ROOTS, kind, attempt=attempt)

    def records(self, records: TrackingRecords) -> pa.RecordBatch:
        """Return records that are forwarded to another acker."""
        batch = records.to_batch()
        return self._batch(batch.columns, batch.schema, MessageKind.RECORDS)

    def root_attempts(self, roots: Ids, attempts: npt.NDArray[np.uint8], kind: MessageKind) -> pa.RecordBatch:
        """Return roots to be sent again, failed, or completed."""
        return self._batch([pa.array(roots), pa.array(attempts)], _ROOT_ATTEMPTS, kind)

    def _batch(
        self, columns: Sequence[pa.Array], schema: pa.Schema, kind: MessageKind, **metadata: Any
    ) -> pa.RecordBatch:
        header = {"kind": kind, "epoch": self.epoch, "ackers": list(self.ackers), **metadata}
        return pa.RecordBatch.from_arrays(list(columns), schema=schema.with_metadata({"header": json.dumps(header)}))
