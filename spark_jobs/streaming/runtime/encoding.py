"""Encodes the output of a step as messages: buffers for the next stage, results, dead letters, feedback."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from springline.spark_jobs.streaming.runtime.json_lines import json_lines
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord, RoundId
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.step import Output

RESULT_ROWS = 2_000  # in one message
BATCH_BYTES = 4 << 20  # of a batch in one message: larger ones are split, since brokers limit the size of messages


def encode_buffers(
    stage: Stage, unit: int, round_id: RoundId, output: Output, *, is_first_round: bool = False
) -> Iterator[OutgoingRecord]:
    """Encode the buffers for each unit downstream and each acker as Arrow streams, numbered from 0.

    With `is_first_round`, this is the first round of a unit that was added later than the others.

    A buffer of more than `BATCH_BYTES` is split by rows into several with the same schema.
    """
    sender = _stamp_prefix(round_id, stage.sender(unit))
    for topic, buffers in ((stage.downstream, output.buffers), (stage.acks, output.acks)):
        for to in sorted(buffers):
            for sequence, batch in enumerate(split_batches(buffers[to])):
                yield OutgoingRecord(
                    topic, to, arrow_bytes(batch), Stamp(*sender, sequence, is_first_round=is_first_round).header()
                )


def encode_feedback(stage: Stage, unit: int, round_id: RoundId, output: Output) -> Iterator[OutgoingRecord]:
    """Encode the feedback of a stage within its job as Arrow streams, split as the buffers are."""
    for sequence, batch in enumerate(split_batches(output.feedback)):
        yield OutgoingRecord(
            stage.feedback, unit, arrow_bytes(batch), Stamp(*_stamp_prefix(round_id, unit), sequence).header()
        )


def encode_results(stage: Stage, unit: int, round_id: RoundId, output: Output) -> Iterator[OutgoingRecord]:
    """Encode the results as lines of JSON, up to `RESULT_ROWS` in a message, and fewer if they are long.

    The header `query` names the query, `incarnation` is the incarnation of the job, from 1 on; `types` is a JSON object
    with the type of each column, since lines alone do not tell whole numbers from others, or times from text.
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
            yield OutgoingRecord(stage.results, unit, lines, headers)
            sequence += 1


def encode_dead_letters(stage: Stage, unit: int, round_id: RoundId, output: Output) -> Iterator[OutgoingRecord]:
    """Encode dead letters with their original bytes; the headers are `topic`, `partition`, `offset` and `reason`.

    Several stages of a job may write to the same topic, each with its own sender number.
    """
    for sequence, dead_letter in enumerate(output.dead_letters):
        headers = Stamp(*_stamp_prefix(round_id, stage.sender(unit)), sequence).header()
        headers |= {
            "topic": (dead_letter.topic or stage.topic).encode(),
            "partition": str(unit if dead_letter.partition is None else dead_letter.partition).encode(),
            "offset": str(dead_letter.offset).encode(),
            # The text quoted in a reason may contain an incomplete character.
            "reason": dead_letter.reason.encode(errors="backslashreplace"),
        }
        yield OutgoingRecord(stage.dead_letters, unit, bytes(dead_letter.value), headers)


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
