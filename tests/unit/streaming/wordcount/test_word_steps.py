"""The word count's steps: whatever bytes lines hold, what is counted is text, and lines that are none are reported."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes, encode_buffers, encode_results
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Input, Output, Round, State
from springline.spark_jobs.streaming.tracking.folds import Fold
from springline.spark_jobs.streaming.tracking.root_id import root_id
from springline.spark_jobs.streaming.tracking.wire import AckMessage, MessageKind
from springline.spark_jobs.streaming.wordcount.count import Count
from springline.spark_jobs.streaming.wordcount.split import Split, line_replayer

SPLITTING = Stage("split", "", "lines", job="words", downstream="words.words")
VERSIONS = {"ring": {"max_ackers": 1, "epochs": {"1": [0]}}, "low_watermarks": {"low_watermarks": {}}}
COUNTING = Stage("count", "", "words.words", job="words", results="words.results")


def split(values: Sequence[bytes]) -> Output:
    """One round of the first stage, for one unit that counts."""
    messages = [Message(offset, value) for offset, value in enumerate(values)]
    return Split(1, tracked=False)(State(), Input("split", 0, Round(1, 1, 1.0), messages))


def counts_of(output: Output) -> dict[str, int]:
    """What the second stage makes of the words, as who reads the topic of results sees it."""
    messages = [Message(at, arrow_bytes(batch)) for at, batch in enumerate(output.buffers.get(0, ()))]
    counted = Count(exactly_once=False, emit_interval=0.0, tracked=False)(
        State(), Input("count", 0, Round(1, 1, 1.0), messages)
    )
    lines = [
        line for result in encode_results(COUNTING, 0, (1, 1), counted) for line in result.value.decode().splitlines()
    ]
    return {result["word"]: result["count"] for result in map(json.loads, lines)}


def test_a_line_that_is_not_utf_8_is_a_dead_letter_and_the_lines_around_it_are_counted() -> None:
    """With its number in the message, and its bytes as they came."""
    output = split([b"a b", b"a\nb \xff\nc\n\xed\xa0\x80 d", b"\xc3\xa9 a"])
    assert counts_of(output) == {"a": 3, "b": 1, "c": 1, "é": 1}
    ((letter),) = output.dead_letters
    assert (letter.offset, letter.value) == (1, b"b \xff\n\xed\xa0\x80 d\n")
    assert letter.reason == "2 lines, the first is line 2: not UTF-8, at byte 2"
    assert output.counts == {"rows": 6, "dead_letters": 1}


def test_what_a_word_is() -> None:
    """What docs/tracking.md says: bytes above the blank, without the byte-order mark at the start of a message."""
    output = split([b"\xef\xbb\xbftea Tea\ttea,\r\ntea\x00\xef\xbb\xbftea", b"\xef\xbb\xbf", "x\xa0y".encode()])
    assert counts_of(output) == {"tea": 2, "Tea": 1, "tea,": 1, "\ufefftea": 1, "x\xa0y": 1}
    assert output.counts["rows"] == 3 and not output.dead_letters


def test_a_line_that_is_not_utf_8_has_no_words_when_it_is_sent_again_either() -> None:
    """What leaves for it is the same in every attempt."""
    output = line_replayer("lines", 1)._emit(0, Message(0, b"a\n\xff b"), [0, 1], 2)
    (batch,) = output.buffers[0]
    assert batch.column("tuples").to_pylist() == [[b"a"]] and output.values[1] == 0


def tracked(values: Sequence[bytes], units: int = 2) -> Output:
    """One round of the first stage, with a fold."""
    messages = [Message(offset, value, partition=3) for offset, value in enumerate(values)]
    return Split(units)(State(), Input("split", 0, Round(1, 1, 1.0, VERSIONS), messages, {3: (0, len(values))}))


class Receivers:
    """The units that count what a round of the first stage has sent."""

    def __init__(self, units: int = 2) -> None:
        self.units, self.states, self.number = units, {unit: State() for unit in range(units)}, 1

    def receive(self, buffers: Mapping[int, Sequence[pa.RecordBatch]]) -> tuple[int, dict[int, int], Counter[str]]:
        """What they ack of the fold and of roots, and what they count, in a round."""
        fold, roots, numbers, self.number = 0, Counter[int](), Counter[str](), self.number + 1
        for unit in range(self.units):
            messages = [Message(0, record.value) for record in records_of(buffers) if record.partition == unit]
            step_input = Input("count", unit, Round(1, self.number, 1.0, VERSIONS), messages)
            output = Count(exactly_once=True, emit_interval=5.0)(self.states[unit], step_input)
            self.states[unit] = output.state
            numbers.update(output.counts)
            for batch in (batch for batches in output.acks.values() for batch in batches):
                ack = AckMessage.read(arrow_bytes(batch))
                if ack.kind is MessageKind.FOLD_ACKS:
                    (value,) = ack.column("value").tolist()
                    fold ^= value
                    continue
                for root, value in zip(ack.column("root").tolist(), ack.column("value").tolist(), strict=True):
                    roots[root] ^= value
        return fold, dict(roots), numbers


def records_of(buffers: Mapping[int, Sequence[pa.RecordBatch]]) -> list[OutgoingRecord]:
    """The messages of buffers, as they are sent."""
    return list(encode_buffers(SPLITTING, 3, (1, 1), Output(State(), buffers)))


def registered(output: Output) -> Fold:
    """The fold of a round."""
    ((batch,),) = output.acks.values()
    (fold,) = AckMessage.read(arrow_bytes(batch)).folds()
    return fold


VALUES = [b"a b c\n\nd e\n", b"", b"f", b"  \n", b"a a b\nc d"]


def test_what_is_sent_are_words_and_few_numbers_a_message() -> None:
    """No root and no id: those follow from the message, and the number of the word in it."""
    assert [batch.schema.names for (batch,) in split(VALUES).buffers.values()] == [["word"]]
    long = [b" ".join(b"w%d" % word for word in range(5_000))] * 20
    plain, with_ids = (
        sum(len(record.value) for record in records_of(output.buffers)) for output in (split(long), tracked(long, 1))
    )
    assert with_ids < plain + 2_000


def test_the_fold_of_a_round_closes_when_every_word_was_applied_once() -> None:
    """It names every line; one that is doubled is not applied again, nor acked."""
    output = tracked(VALUES)
    fold, receivers = registered(output), Receivers()
    assert fold.roots.tolist() == [
        root_id(3, number, row) for number, value in enumerate(VALUES) for row in range(len(value.splitlines()))
    ]
    value, roots, numbers = receivers.receive(output.buffers)
    assert (value, roots, numbers) == (fold.value, {}, {"rows": 11, "doubled": 0})
    value, _, numbers = receivers.receive(output.buffers)
    assert (value, numbers) == (0, {"rows": 11, "doubled": 11})


def test_the_words_of_a_long_message_are_cut_so_that_a_broker_takes_them() -> None:
    """And rounds of many of them; the fold closes all the same."""
    long = [b"".join(b"%d " % (word % 97) for word in range(1_400_000)), *VALUES, b"x " * 400_000]
    output = tracked(long, 1)
    assert max(len(record.value) for record in records_of(output.buffers)) < 4.1 * 2**20
    assert len(records_of(output.buffers)) > 2
    value, _, numbers = Receivers(1).receive(output.buffers)
    assert value == registered(output).value and numbers == {"rows": 1_800_011, "doubled": 0}


@pytest.mark.fuzz
@settings(deadline=None)
@given(st.lists(st.binary(max_size=40) | st.binary(max_size=9).map(BOM_UTF8.__add__), max_size=4))
def test_every_line_is_counted_or_in_a_dead_letter(values: list[bytes]) -> None:
    """By an oracle of Python's own."""
    expected: Counter[str] = Counter()
    odd = []
    for value in values:
        for line in value.removeprefix(BOM_UTF8).split(b"\n"):
            try:
                line.decode()
            except UnicodeDecodeError:
                odd.append(line)
                continue
            blank = line.translate(bytes(max(byte, 32) if byte <= 32 else byte for byte in range(256)))
            expected.update(word.decode() for word in blank.split(b" ") if word)
    output = split(values)
    assert counts_of(output) == expected
    assert b"".join(letter.value for letter in output.dead_letters) == b"".join(line + b"\n" for line in odd)
