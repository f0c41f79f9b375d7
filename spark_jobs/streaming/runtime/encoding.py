"""Encodes the output of a step as messages: buffers for the next stage, results, dead letters, feedback."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import pyarrow as pa

from springline.spark_jobs.streaming.runtime.json_lines import json_lines
from springline.spark_jobs.streaming.runtime.message import header_pairs
from springline.spark_jobs.streaming.runtime.message_log import MAX_RECORD_BYTES, OutgoingRecord, RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Output
from springline.spark_jobs.streaming.runtime.topic_union import partition_of

RESULT_ROWS = 2_000  # in one message
# Headers of a dead letter: when its message was appended, and the headers of that; what its content is, if not bytes
# of the message as they came.
TIMESTAMP, HEADERS, CONTENT = "timestamp", "headers", "content"
NULL, MISSING, CUT = "null", "missing", "cut from"  # the message has no value, was not found, was too large
MAX_REASON = 1_000  # characters of the reason of a dead letter
BATCH_BYTES = 4 << 20  # of a batch in one message: larger ones are split, since brokers limit the size of messages


def encode_buffers(stage: Stage, unit: int, round_id: RoundId, output: Output) -> Iterator[OutgoingRecord]:
    """Encode the buffers for each unit downstream and each acker as Arrow streams, numbered from 0.

    A buffer of more than `BATCH_BYTES` is split by rows into several with the same schema.
    """
    sender = _stamp_prefix(round_id, stage.sender(unit))
    for topic, buffers in ((stage.downstream, output.buffers), (stage.acks, output.acks)):
        for to in sorted(buffers):
            for sequence, batch in enumerate(split_batches(buffers[to])):
                yield OutgoingRecord(topic, to, arrow_bytes(batch), Stamp(*sender, sequence).header())


def encode_feedback(stage: Stage, unit: int, round_id: RoundId, output: Output) -> Iterator[OutgoingRecord]:
    """Encode the feedback of a stage within its job as Arrow streams, split as the buffers are."""
    for sequence, batch in enumerate(split_batches(output.feedback)):
        yield OutgoingRecord(
            stage.feedback, unit, arrow_bytes(batch), Stamp(*_stamp_prefix(round_id, unit), sequence).header()
        )


def encode_results(
    stage: Stage, unit: int, round_id: RoundId, output: Output, oversized: list[DeadLetter] | None = None
) -> Iterator[OutgoingRecord]:
    """Encode the results as lines of JSON, up to `RESULT_ROWS` in a message, and fewer if they are long.

    The header `query` names the query, `incarnation` is the incarnation of the job, from 1 on; `types` is a JSON object
    with the type of each column, since lines alone do not tell whole numbers from others, or times from text. Rows that
    no message can hold are added to `oversized` instead, if it is given.
    """
    sequence = 0
    for batch in output.results:
        types = json.dumps({field.name: str(field.type) for field in batch.schema}).encode()
        query = (batch.schema.metadata or {}).get(b"query", b"")
        parts = (batch.slice(start, RESULT_ROWS) for start in range(0, batch.num_rows, RESULT_ROWS))
        for lines in (lines for part in parts for lines in _json_lines(part)):
            headers = {
                **Stamp(*_stamp_prefix(round_id, unit), sequence).header(),
                "query": query,
                "incarnation": str(round_id[0]).encode(),
                "types": types,
            }
            record = OutgoingRecord(stage.results, unit, lines, headers)
            if oversized is not None and record.size > MAX_RECORD_BYTES:
                reason = (
                    f"a result of {record.size:,} bytes; at most {MAX_RECORD_BYTES:,} can be sent to {stage.results}"
                )
                oversized.append(DeadLetter(-1, lines, reason))
                continue
            yield record
            sequence += 1


def encode_dead_letters(stage: Stage, unit: int, round_id: RoundId, output: Output) -> Iterator[OutgoingRecord]:
    """Encode dead letters with their original bytes; the headers are `topic`, `partition`, `offset` and `reason`.

    They keep the key, the headers and the timestamp of the message that they come from. Content that does not fit into
    a message is cut, and then the header `content` says so. Several stages of a job may write to the same topic, each
    with its own sender number.
    """
    for sequence, dead_letter in enumerate(output.dead_letters):
        place = unit if dead_letter.partition is None else dead_letter.partition
        topic, partition = partition_of(dead_letter.topic or stage.topic, place)
        headers = Stamp(*_stamp_prefix(round_id, stage.sender(unit)), sequence).header()
        headers |= {
            "topic": topic.encode(),
            "partition": str(partition).encode(),
            "offset": str(dead_letter.offset).encode(),
            # The text quoted in a reason may contain an incomplete character.
            "reason": shorten(dead_letter.reason).encode(errors="backslashreplace"),
        }
        origin = dead_letter.origin
        value, key = bytes(dead_letter.value), None
        if origin is not None:
            key = origin.key
            headers[TIMESTAMP] = str(round(origin.timestamp * 1000)).encode()
            if header_pairs(origin.headers):
                headers[HEADERS] = msgspec.msgpack.encode(header_pairs(origin.headers))
        if not value and (origin is None or origin.is_null):
            headers[CONTENT] = (MISSING if origin is None else NULL).encode()
        record = OutgoingRecord(stage.dead_letters, unit, value, headers, key)
        yield record if record.size <= MAX_RECORD_BYTES else _cut(record)


def _cut(record: OutgoingRecord) -> OutgoingRecord:
    """Return a dead letter with as much of its content as can be sent; without a key and headers that are too large."""
    headers = {**record.headers, CONTENT: f"{CUT} {len(record.value)} bytes".encode()}
    empty = replace(record, value=b"", headers=headers)
    if empty.size > MAX_RECORD_BYTES:
        headers.pop(HEADERS, None)
        empty = replace(empty, key=None)
    return replace(empty, value=record.value[: MAX_RECORD_BYTES - empty.size])


def shorten(reason: str) -> str:
    """Cut a reason to `MAX_REASON` characters: it may quote what it is about."""
    return reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON - 1]}…"


def arrow_bytes(batch: pa.RecordBatch) -> bytes:
    """Encode a batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def split_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches in halves until each part is small enough, or a single row."""
    for batch in batches:
        if batch.nbytes <= BATCH_BYTES or batch.num_rows < 2:
            yield batch
        else:
            half = batch.num_rows // 2
            yield from split_batches([batch.slice(0, half), batch.slice(half)])


def _stamp_prefix(round_id: RoundId, unit: int) -> tuple[int, int, int]:
    return (round_id[0], unit, round_id[1])


def _json_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Encode rows as lines of JSON, in halves until the lines of each part are small enough, or a single row."""
    if batch.nbytes <= BATCH_BYTES or batch.num_rows < 2:
        lines = json_lines(batch)
        if len(lines) <= 2 * BATCH_BYTES or batch.num_rows < 2:
            yield lines
            return
    half = batch.num_rows // 2
    yield from _json_lines(batch.slice(0, half))
    yield from _json_lines(batch.slice(half))
