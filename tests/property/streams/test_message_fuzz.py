"""Messages drawn at random: whatever bytes come, good rows around them are used, the others are dead letters."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.sources.schema import to_micros
from tests.support.decoding.decoder_process import Decoded, DecoderProcess, decode
from tests.support.decoding.odd_messages import NAMES, WRITERS, T, damaged, rows
from tests.support.decoding.windows_job import FIELDS, stream

GOOD = (T, "x", "a", 1, 0.5)
EARLIEST, LATEST = to_micros(stream().min_event_time), to_micros(stream().max_event_time)
_NO_TIME = re.compile(r"time is (NULL|outside)")
_LEAST, _MOST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds: the years 1 to 9999
_BLANKS = b" \t\r\n"


@pytest.fixture(scope="module")
def process() -> Iterator[DecoderProcess]:
    """One for all examples."""
    decoder = DecoderProcess()
    yield decoder
    decoder.close()


def around(form: str) -> bytes:
    """A message of one good row."""
    return WRITERS[form][0]([GOOD])


def content(*values: bytes) -> Counter[int]:
    """The bytes that are no blanks: empty lines are no rows."""
    return Counter(byte for value in values for byte in value if byte not in _BLANKS)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_byte_order_mark_at_the_start_of_a_message_is_no_part_of_its_first_row(form: str) -> None:
    """In windows and joins; in the middle of a message it is content as any other."""
    decoded = decode(form, [around(form), BOM_UTF8 + around(form), BOM_UTF8], windows=True)
    assert len(decoded.rows) == 2 and len({repr(row) for row in decoded.rows}) == 1 and not decoded.dead
    assert len(decoded.joined) == len(decoded.windowed) == 2
    assert len(decode(form, [around(form) + BOM_UTF8 + around(form)]).dead) == 1


@pytest.mark.fuzz
@pytest.mark.parametrize("form", ["csv", "json"])
@settings(deadline=None)
@given(st.data())
def test_every_row_of_a_damaged_message_is_used_or_in_a_dead_letter(
    form: str, process: DecoderProcess, data: st.DataObject
) -> None:
    """By windows and joins alike, to the last byte; the messages around it are unharmed, and know nothing of it."""
    odd = data.draw(damaged(form))
    together = process.decode(form, [around(form), odd, around(form)], windows=True)
    used = [value for offset, value in together.originals if offset == 1]
    lost = [value for offset, _, value in together.dead]
    assert {offset for offset, _, _ in together.dead} <= {1}
    assert content(*used, *lost) == content(odd.removeprefix(BOM_UTF8))
    assert len(together.rows) == len(together.originals) == len(used) + 2
    alone = process.decode(form, [odd])
    assert alone.rows == together.rows[1:-1]
    assert [letter[1:] for letter in alone.dead] == [letter[1:] for letter in together.dead]


@pytest.mark.fuzz
@pytest.mark.parametrize("form", WRITERS)
@settings(deadline=None)
@given(st.data())
def test_a_window_and_a_join_see_the_same_rows_and_letters(
    form: str, process: DecoderProcess, data: st.DataObject
) -> None:
    """Whatever the bytes are, and however they are cut; but rows whose time is none are a window's letters alone."""
    values = data.draw(st.lists(st.one_of(damaged(form), st.just(around(form)), st.just(b"")), max_size=3))
    decoded = process.decode(form, values, windows=True)
    timed = [row for row in decoded.joined if row[0] is not None and EARLIEST <= row[0] < LATEST]
    assert Counter(map(repr, map(_zeros_alike, decoded.windowed))) == Counter(map(repr, map(_zeros_alike, timed)))
    of_times = [letter for letter in decoded.windowed_dead if _NO_TIME.search(letter[1])]
    assert [letter for letter in decoded.windowed_dead if letter not in of_times] == decoded.joined_dead == decoded.dead
    assert bool(of_times) == (len(timed) < len(decoded.joined))
    assert len(decoded.joined) == len(decoded.rows)


def _zeros_alike(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """SQL's -0.0 is 0.0."""
    return (*row[:-1], row[-1] + 0.0 if row[-1] is not None else None)


@pytest.mark.fuzz
@settings(deadline=None)
@given(damaged("arrow"))
def test_a_damaged_arrow_message_is_used_or_a_dead_letter(process: DecoderProcess, odd: bytes) -> None:
    """As a whole; the messages around it are unharmed, and the process that reads it lives on."""
    good = around("arrow")
    together = process.decode("arrow", [good, odd, good], windows=True)
    assert [offset for offset, _, _ in together.dead] in ([], [1])
    assert all(value == odd for _, _, value in together.dead)
    assert not (together.dead and any(offset == 1 for offset, _ in together.originals))
    assert len([offset for offset, _ in together.originals if offset != 1]) == 4


@pytest.mark.fuzz
@settings(deadline=None)
@given(damaged("json"))
@example(b'{"time":1,"load":NaN}')
@example(BOM_UTF8 + b'{"time":1,"load":"-Infinity"}')
def test_a_line_of_json_is_read_as_python_reads_it(odd: bytes) -> None:
    """Or is a dead letter: then Python does not read it either, or it does not fit."""
    decoded = decode("json", [odd])
    kinds = {each.name: each.type for each in FIELDS}
    expected = [
        row for line in odd.removeprefix(BOM_UTF8).split(b"\n") if (row := _as_python_has_it(line, kinds)) is not None
    ]
    assert list(map(repr, decoded.rows)) == list(map(repr, expected))


def _as_python_has_it(line: bytes, kinds: dict[str, str]) -> dict[str, Any] | None:
    """The wanted fields of an object; None if it is none of ours."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        names = [name for name, _ in pairs if name in kinds]
        twice = len(set(names)) < len(names)  # of the outermost, which comes last
        return dict(pairs)

    twice = False
    if not line.strip(_BLANKS) or b"\0" in line:
        return None
    try:
        parsed = json.loads(line.decode(), object_pairs_hook=once)
        json.dumps(parsed, ensure_ascii=False).encode()  # half of a surrogate pair is no character
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or twice:
        return None
    row = {name: parsed.get(name) for name in kinds}
    for name, value in row.items():
        fits = {"int": int, "float": (int, float), "timestamp(s)": (int, float), "text": str}[kinds[name]]
        if value is None:
            continue
        if kinds[name] == "float" and value in ("NaN", "Infinity", "-Infinity"):
            value = float(value)
        if not isinstance(value, fits) or isinstance(value, bool):
            return None
        if kinds[name] == "int" and not -(2**63) <= value < 2**63:
            return None
        if name == "time":
            if value != value or abs(value) > 1e12:
                return None
            micros = round(Decimal(repr(value)) * 1_000_000)
            if not _LEAST <= micros <= _MOST:
                return None
            row[name] = micros / 1e6
        if kinds[name] == "float":
            row[name] = float(value) if value == value else None
    return row


@pytest.mark.fuzz
@pytest.mark.parametrize("form", WRITERS)
@settings(deadline=None)
@given(rows, st.data())
def test_rows_are_read_as_they_were_written_however_messages_are_cut(
    form: str, drawn_rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Null, an empty text, quotes, line ends, and whole numbers to the end of 64 bits; in every form the same."""
    write = data.draw(st.sampled_from(WRITERS[form]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(drawn_rows)), max_size=3)))
    parts = [
        drawn_rows[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(drawn_rows)], strict=True) if begin < end
    ]
    decoded: Decoded = decode(form, [write(part) for part in parts])
    if form == "arrow":  # whose messages end with their first row once more
        parts = [[*part, part[0]] for part in parts]
    assert not decoded.dead
    assert decoded.rows == [dict(zip(NAMES, row, strict=True)) for part in parts for row in part]
