"""Pieces of stored tuples on their way to another unit: as batches for the topic of copies, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from springline.spark_jobs.streaming.join.errors import MigrationCopyError
from springline.spark_jobs.streaming.join.unit.runs import Run, bytes_of, sorted_run
from springline.spark_jobs.streaming.join.wire import Piece, Switch
from springline.spark_jobs.streaming.runtime.step import Message

PIECE = b"piece"
_PART_BYTES = 4 << 20  # of one message, about


@dataclass(frozen=True, slots=True)
class Copied:
    """A piece that was copied and not switched yet.

    It was copied in `stage_round` of the stage of units, which is in the stamps of its `parts` messages; its tuples are
    those with a seq below `before`.
    """

    piece: Piece
    before: int
    rows: int
    bytes: int
    parts: int
    stage_round: int

    def told(self) -> dict[str, int]:
        """For a unit's gauges."""
        return {"rows": self.rows, "bytes": self.bytes, "parts": self.parts, "stage_round": self.stage_round}


def parts_of(piece: Piece, schema: pa.Schema, found: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """A piece's tuples as messages, at least one; each tells the piece's id, its own number and how many there are."""
    batches = [part for batch in found for part in _cut(batch)]
    batches = batches or [pa.RecordBatch.from_pylist([], schema=schema)]
    return [
        batch.replace_schema_metadata({PIECE: json.dumps({"id": piece.id, "part": number, "parts": len(batches)})})
        for number, batch in enumerate(batches)
    ]


def part_of(value: bytes | memoryview) -> tuple[int, int, int, pa.RecordBatch]:
    """A message of the topic of copies: the piece's id, the number of this part, how many parts it has, the tuples.

    A controller that looks for a piece's offsets reads this too.
    """
    batch = pa.ipc.open_stream(value).read_next_batch()
    told = json.loads(batch.schema.metadata[PIECE])
    return told["id"], told["part"], told["parts"], batch


def taken_in(switch: Switch, messages: Iterable[Message]) -> Run | None:
    """The tuples of a copy as one run; raises `MigrationCopyError` where a part of it is missing."""
    parts: dict[int, pa.RecordBatch] = {}
    wanted = None
    for message in messages:
        piece, number, count, batch = part_of(message.value)
        if piece == switch.piece.id:
            wanted = count
            parts.setdefault(number, batch)
    if wanted is None or len(parts) < wanted:
        where = f"offsets {switch.start} to {switch.to} of unit {switch.piece.giver}'s copies"
        raise MigrationCopyError(f"piece {switch.piece.id}: {where} hold {len(parts)} of {wanted or 'its'} parts")
    return sorted_run([parts[number] for number in sorted(parts)])


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """In halves, until each is small enough for a message."""
    if bytes_of(batch) <= _PART_BYTES or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _cut(batch.slice(0, half))
    yield from _cut(batch.slice(half))
