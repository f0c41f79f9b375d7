"""Record batches are read as they were written, whatever is in them; damaged ones are refused, never read wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.errors import CorruptBatchError, UnsupportedClusterError
from springline.spark_jobs.streaming.kafka.record_batches import read_batches
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch, header_pairs
from tests.support.decoding.record_batches import CODECS, Written, batch, end_of_transaction

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
TIMES = st.integers(0, 2**41)
PARTS = st.tuples(BYTES, BYTES, TIMES, HEADERS, st.integers(1, 3))


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[list[Written], str]]:
    """Some batches one after another, with gaps between offsets."""
    offset, drawn = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 4))):
        records = []
        for value, key, time, headers, gap in draw(st.lists(PARTS, min_size=1, max_size=30)):
            records.append(Written(offset, value, key, time, headers))
            offset += gap
        drawn.append((records, draw(st.sampled_from(CODECS))))
    return drawn


def read(content: bytes, start: int = 0, **aborted: list[int]) -> list[Message]:
    """The messages of some batches; `aborted` as `p7=[3]`."""
    by_producer = {int(name[1:]): firsts for name, firsts in aborted.items()}
    return list(read_batches(content, start, by_producer, 3).messages)


def as_message(written: Written) -> Message:
    """A record as it should be read."""
    return Message(
        written.offset, written.value or b"", written.time / 1000,
        {name: value for name, value in written.headers if value is not None}, written.key, written.value is None, 3,
    )  # fmt: skip


def messages(records: Sequence[Written]) -> list[Message]:
    """Records as they should be read."""
    return [as_message(each) for each in records]


@given(batches(), st.data())
def test_what_was_written_is_read(written: list[tuple[list[Written], str]], data: st.DataObject) -> None:
    """Offsets, times, keys, headers and values, of each compression; from any offset on."""
    records = [each for own, _ in written for each in own]
    content = b"".join(batch(own, codec) for own, codec in written)  # type: ignore[arg-type]
    first, last = records[0].offset, records[-1].offset
    decoded = read(content)
    assert decoded == messages(records)
    assert [header_pairs(each.headers) for each in decoded] == [each.headers for each in records]
    start = data.draw(st.integers(first, last + 1))
    assert read(content, start) == messages([each for each in records if start <= each.offset])


@given(st.lists(st.builds(as_message, st.builds(Written, st.integers(0, 2**40), BYTES, BYTES, TIMES, HEADERS))))
def test_messages_are_the_same_as_a_batch(single: list[Message]) -> None:
    """One after another, and some of them."""
    together = MessageBatch.of(single)
    assert list(together) == single
    assert list(together[1:3]) == single[1:3]
    assert together.value_bytes == sum(len(each.value) for each in single)


@given(batches(), st.data())
def test_a_batch_that_the_limit_of_a_fetch_has_cut_is_left_for_the_next(
    written: list[tuple[list[Written], str]], data: st.DataObject
) -> None:
    """All before it are there."""
    parts = [batch(own, codec) for own, codec in written]  # type: ignore[arg-type]
    content = b"".join(parts)
    size = data.draw(st.integers(0, len(content)))
    uncut = max(n for n in range(len(parts) + 1) if sum(map(len, parts[:n])) <= size)
    decoded = read_batches(content[:size], 0, {}, 3)
    assert list(decoded.messages) == messages([each for own, _ in written[:uncut] for each in own])
    assert decoded.next_offset == (written[uncut - 1][0][-1].offset + 1 if uncut else 0)


@given(batches(), st.data())
def test_a_damaged_byte_is_refused_or_changes_nothing(
    written: list[tuple[list[Written], str]], data: st.DataObject
) -> None:
    """Nothing is read that was not written; bytes that the checksum does not cover may hide batches behind them."""
    records = [each for own, _ in written for each in own]
    content = bytearray(b"".join(batch(own, codec) for own, codec in written))  # type: ignore[arg-type]
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    try:
        decoded = [(each.value, each.key) for each in read(bytes(content))]
    except (CorruptBatchError, UnsupportedClusterError):
        return
    expected = [(each.value, each.key) for each in messages(records)]
    assert all(each in expected for each in decoded)


@given(st.binary(max_size=200))
def test_no_bytes_end_in_anything_but_a_refusal(content: bytes) -> None:
    """Random bytes, and random bytes as the records of a batch."""
    with suppress(CorruptBatchError, UnsupportedClusterError):
        assert isinstance(read(content), list)


@given(st.binary(max_size=40))
def test_headers_that_are_none_do_not_hide_their_message(content: bytes) -> None:
    """A producer may have written anything there."""
    single = MessageBatch.of([Message(7, b"value")])
    data = np.concatenate([single.data, np.frombuffer(bytearray(content + b"\x80"), np.uint8)])
    (message,) = replace(single, data=data, header_starts=np.array([single.data.size]))
    assert (message.value, message.offset) == (b"value", 7)


def test_records_of_aborted_transactions_are_passed_over() -> None:
    """Of the same producer, later transactions count; an abort whose records lie before the fetch ends nothing else."""
    first, second, third, other = (
        batch([Written(offset, b"%d" % offset)], producer=producer, transactional=True)
        for offset, producer in ((4, 7), (6, 7), (8, 7), (9, 5))
    )
    content = b"".join((
        first, end_of_transaction(5, 7, committed=False), second, end_of_transaction(7, 7, committed=True), third,
        other, end_of_transaction(10, 7, committed=False), end_of_transaction(11, 5, committed=True),
        batch([Written(12, b"plain")]),
    ))  # fmt: skip
    assert [each.offset for each in read(content, p7=[4, 8])] == [6, 9, 12]
    assert [each.offset for each in read(content[len(first) :], 5, p7=[4, 8])] == [6, 9, 12]
    assert [each.offset for each in read(content)] == [4, 6, 8, 9, 12]


def test_times_that_the_broker_set_and_a_batch_that_compaction_left_empty() -> None:
    """The newest time of the batch is each record's then; offsets go on behind what is no longer there."""
    set_by_broker = batch([Written(3, b"a", time=5), Written(4, b"b", time=6)], append_time=9_000)
    emptied = batch([], base=5, last=9)
    decoded = read_batches(set_by_broker + emptied, 0, {}, 0)
    assert [message.timestamp for message in decoded.messages] == [9.0, 9.0]
    assert decoded.next_offset == 10


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (lambda content: content[:16] + b"\x01" + content[17:], UnsupportedClusterError, "older than v2"),
        (lambda content: content[:16] + b"\x03" + content[17:], CorruptBatchError, "no batch"),
        (lambda content: content[:8] + b"\0\0\0\x09" + content[12:], CorruptBatchError, "no batch"),
        (lambda content: content[:-1] + b"?", CorruptBatchError, "wrong checksum"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_reason(change, error, reason: str) -> None:  # type: ignore[no-untyped-def]
    """An old format and one to come, a size below that of a header, another byte."""
    with pytest.raises(error, match=reason):
        read(change(batch([Written(0, b"value")])))
