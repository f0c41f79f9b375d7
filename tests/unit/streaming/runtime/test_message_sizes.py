"""Messages are no larger than brokers take."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.runtime.encoding import (
    BATCH_BYTES,
    encode_buffers,
    encode_dead_letters,
    encode_feedback,
)
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.stamps import HEADER, Stamp
from springline.spark_jobs.streaming.runtime.step import DeadLetter, Output, State

STAGE = Stage(
    "first", "step", "source", job="job", downstream="next", acks="acks", outlets={"next": 2, "acks": 1},
    feedback="requests", dead_letters="dead",
)  # fmt: skip


def batch(rows: int) -> pa.RecordBatch:
    """Eight bytes a row, with metadata."""
    schema = pa.schema({"number": pa.uint64()}, metadata={"of": "these"})
    return pa.RecordBatch.from_arrays([pa.array(np.arange(rows, dtype=np.uint64))], schema=schema)


@pytest.mark.parametrize("edge", ["buffers", "acks", "feedback"])
def test_what_is_too_large_for_a_message_comes_in_several(edge: str) -> None:
    """In order, with nothing lost, and each with the metadata of the whole."""
    large, small = batch(BATCH_BYTES // 3), batch(3)
    batches = [large, small]
    output = Output(State(), **{edge: batches if edge == "feedback" else {0: batches}})  # type: ignore[arg-type]
    messages = list((encode_feedback if edge == "feedback" else encode_buffers)(STAGE, 0, (1, 1), output))
    assert len(messages) > 2
    assert all(len(letter.value) < 2 * BATCH_BYTES for letter in messages)
    decoded = [pa.ipc.open_stream(letter.value).read_next_batch() for letter in messages]
    assert all(each.schema.metadata == {b"of": b"these"} for each in decoded)
    assert pa.Table.from_batches(decoded) == pa.Table.from_batches(batches)
    stamps = [Stamp.decode(letter.headers[HEADER]) for letter in messages]
    assert [stamp.sequence for stamp in stamps] == list(range(len(messages)))


def test_a_row_that_is_larger_than_that_comes_alone() -> None:
    """It cannot be cut."""
    texts = pa.RecordBatch.from_pydict({"text": ["a", "b" * (BATCH_BYTES + 1), "c"]})
    messages = list(encode_buffers(STAGE, 0, (1, 1), Output(State(), {1: [texts]})))
    rows = [pa.ipc.open_stream(letter.value).read_next_batch().num_rows for letter in messages]
    assert sum(rows) == 3
    assert 1 in rows


def test_a_dead_letter_has_topic_partition_offset_and_reason() -> None:
    """Those of the stage and the unit, unless it names others; half a character in a reason is no error."""
    messages = [DeadLetter(7, b"as it came", "no \ud800"), DeadLetter(8, b"", "gone", 3, "other")]
    headers = [
        letter.headers for letter in encode_dead_letters(STAGE, 1, (1, 1), Output(State(), dead_letters=messages))
    ]
    places = [[each[name] for name in ("topic", "partition", "offset", "reason")] for each in headers]
    assert places == [[b"source", b"1", b"7", b"no \\ud800"], [b"other", b"3", b"8", b"gone"]]
