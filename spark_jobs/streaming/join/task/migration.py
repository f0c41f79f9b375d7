"""Migrations of stored tuples to another unit: encoded as batches for the topic of copies, and decoded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from springline.spark_jobs.streaming.join.errors import MigrationCopyError
from springline.spark_jobs.streaming.join.task.segments import bytes_of
from springline.spark_jobs.streaming.join.wire import UNIT, Cutover, StateMigration
from springline.spark_jobs.streaming.runtime.message import Message

HEADER_KEY = b"piece"
_PART_BYTES = 4 << 20  # approximate maximum of one message


@dataclass(frozen=True, slots=True)
class MigrationCopy:
    """A migration that was copied, and not cut over yet.

    It was copied in `stage_round` of the stage of tasks, which is in the stamps of its `parts` messages; it contains
    tuples with a seq below `before_seq`.
    """

    migration: StateMigration
    before_seq: int
    rows: int
    bytes: int
    parts: int
    stage_round: int

    def gauges(self) -> dict[str, int]:
        """Return values for a task's gauges."""
        return {"rows": self.rows, "bytes": self.bytes, "parts": self.parts, "stage_round": self.stage_round}


def encode_copy(
    migration: StateMigration, schema: pa.Schema, extracted: Iterable[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """Encode a migration's tuples as at least one message with the migration's id, the part number and part count."""
    batches = [part for batch in extracted for part in _split_batch(batch)]
    batches = batches or [pa.RecordBatch.from_pylist([], schema=schema)]
    return [
        batch.replace_schema_metadata(
            {HEADER_KEY: json.dumps({"id": migration.id, "part": number, "parts": len(batches)})}
        )
        for number, batch in enumerate(batches)
    ]


def decode_copy_part(value: bytes | memoryview) -> tuple[int, int, int, pa.RecordBatch]:
    """Decode a message of the topic of copies: migration id, part number, part count, tuples.

    The controller uses this too, to find the offsets of copies.
    """
    batch = pa.ipc.open_stream(value).read_next_batch()
    header = json.loads(batch.schema.metadata[HEADER_KEY])
    return header["id"], header["part"], header["parts"], batch


def import_copy(cutover: Cutover, messages: Iterable[Message]) -> pa.RecordBatch | None:
    """Return the tuples of a copy, as the receiver stores them; None without any.

    Raises `MigrationCopyError` if a part is missing.
    """
    parts: dict[int, pa.RecordBatch] = {}
    expected_parts = None
    for message in messages:
        migration, number, count, batch = decode_copy_part(message.value)
        if migration == cutover.migration.id:
            expected_parts = count
            parts.setdefault(number, batch)
    if expected_parts is None or len(parts) < expected_parts:
        where = f"offsets {cutover.start} to {cutover.end} of the copies of unit {cutover.migration.giver}'s task"
        raise MigrationCopyError(
            f"piece {cutover.migration.id}: {where} hold {len(parts)} of {expected_parts or 'its'} parts"
        )
    batch = pa.concat_batches([parts[number].replace_schema_metadata(None) for number in sorted(parts)])
    units = pa.array(np.full(batch.num_rows, cutover.migration.receiver, np.uint8))
    return batch.set_column(batch.schema.get_field_index(UNIT), UNIT, units) if batch.num_rows else None


def _split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split in halves until each is small enough for a message."""
    if bytes_of(batch) <= _PART_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _split_batch(batch.slice(0, half))
    yield from _split_batch(batch.slice(half))
