"""The word count's steps: whatever bytes lines hold, what is counted is text, and lines that are none are told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes, encode_results
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Input, Message, Output, Round, State
from springline.spark_jobs.streaming.wordcount.count import Count
from springline.spark_jobs.streaming.wordcount.split import Split, line_replayer

COUNTING = Stage("count", "", "words.words", job="words", state="/state", results="words.results")


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


def test_a_line_that_is_not_utf_8_has_no_words_when_it_is_sent_again_either() -> None:
    """What leaves for it is the same in every attempt."""
    output = line_replayer("lines", 1)._emit(0, Message(0, b"a\n\xff b"), [0, 1], 2)
    (batch,) = output.buffers[0]
    assert batch.column("word").to_pylist() == [b"a"] and output.values[1] == 0


@pytest.mark.fuzz
@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=4))
def test_every_line_is_counted_or_in_a_dead_letter(values: list[bytes]) -> None:
    """By an oracle of Python's own."""
    expected: Counter[str] = Counter()
    odd = []
    for value in values:
        for line in value.split(b"\n"):
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
