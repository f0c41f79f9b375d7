"""Migrations of stored tuples to another unit: encoded as batches for the topic of copies, and decoded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from springline.spark_jobs.streaming.join.errors import MigrationCopyError
from springline.spark_jobs.streaming.join.unit.sorted_runs import SortedRun, bytes_of, sorted_run
from springline.spark_jobs.streaming.join.wire import Cutover, StateMigration
from springline.spark_jobs.streaming.runtime.step import Message

HEADER_KEY = b"piece"
_PART_BYTES = 4 << 20  # approximate maximum of one message


@dataclass(frozen=True, slots=True)
class MigrationCopy:
    """A migration that was copied, and not cut over yet.

    It was copied in `stage_round` of the stage of units, which is in the stamps of its `parts` messages; it contains
    tuples with a seq below `before_seq`.
    """

    migration: StateMigration
    before_seq: int
    rows: int
    bytes: int
    parts: int
    stage_round: int

    def gauges(self) -> dict[str, int]:
        """Return values for a unit's gauges."""
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


def import_copy(cutover: Cutover, messages: Iterable[Message]) -> SortedRun | None:
    """Return the tuples of a copy as one run; raises `MigrationCopyError` if a part is missing."""
    parts: dict[int, pa.RecordBatch] = {}
    expected_parts = None
    for message in messages:
        migration, number, count, batch = decode_copy_part(message.value)
        if migration == cutover.migration.id:
            expected_parts = count
            parts.setdefault(number, batch)
    if expected_parts is None or len(parts) < expected_parts:
        where = f"offsets {cutover.start} to {cutover.end} of unit {cutover.migration.giver}'s copies"
        raise MigrationCopyError(
            f"piece {cutover.migration.id}: {where} hold {len(parts)} of {expected_parts or 'its'} parts"
        )
    return sorted_run([parts[number] for number in sorted(parts)])


def _split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split in halves until each is small enough for a message."""
    if bytes_of(batch) <= _PART_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _split_batch(batch.slice(0, half))
    yield from _split_batch(batch.slice(half))
