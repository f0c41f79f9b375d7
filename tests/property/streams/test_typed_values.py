"""Decimals, dates, timestamps, booleans and bytes in texts are what Python's own types say."""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.sources.decoder import rows_of
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.layout import Layout

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST, MOST = -62_135_596_800_000_000, 253_402_300_799_999_999  # the years 1 to 9999 in microseconds
EXACT = Context(prec=2_000, Emax=10_000, Emin=-10_000)
DIGITS = st.text("0123456789", max_size=25)
NUMBERS = st.builds(
    lambda sign, digits, rest, power: sign + digits + rest + power,
    st.sampled_from(["", "-"]),
    st.sampled_from(["0", "5"]) | st.integers(0, 10**25).map(str),
    st.just("") | DIGITS.filter(bool).map(lambda digits: f".{digits}"),
    st.just("") | st.integers(-30, 30).map(lambda power: f"e{power}"),
)  # of JSON's grammar


def read(form: str, declared: str, text: str) -> Any:
    """The value of a message of one field, between two good rows; `ValueError` if it is a dead letter."""
    good = open_format(Layout(form, {"v": declared, "n": "int"}), ["v", "n"])
    beside = b'{"n": 1}' if form == "json" else b",1"
    value = f'{{"n": 1, "v": {text}}}' if form == "json" else f"{text},1"
    batch = MessageBatch.of([Message(0, beside), Message(1, value.encode()), Message(2, beside)])
    table, dead = rows_of(good, [batch])
    table.validate(full=True)
    if dead:
        assert [letter.offset for letter in dead] == [1] and table.num_rows == 2
        assert dead[0].value.removesuffix(b"\n") == value.encode() and f"v is no {declared}: " in dead[0].reason
        raise ValueError(text)
    return table.column("v").to_pylist()[1]


def read_or_none(form: str, declared: str, text: str) -> Any:
    """None for a dead letter."""
    try:
        return read(form, declared, text)
    except ValueError:
        return None


@given(NUMBERS, st.integers(1, 18).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))), st.booleans())
@example("999999999999999999.0e-18", (18, 18), True)
@example("1e17", (18, 0), True)
@example("0.00000000000000000000000000001e29", (1, 0), True)
def test_a_decimal_is_exact_or_a_dead_letter(text: str, kind: tuple[int, int], is_json: bool) -> None:
    """Neither a digit nor a place more than declared, however it is written."""
    digits, places = kind
    exact = Decimal(text).scaleb(places, EXACT)
    fits = exact == exact.to_integral_value() and abs(exact) < 10**digits
    expected = Decimal(text).quantize(Decimal(1).scaleb(-places), context=EXACT) if fits else None
    declared = f"decimal({digits}, {places})"
    if is_json:
        assert read_or_none("json", declared, text) == expected
        assert read_or_none("json", declared, f'"{text}"') == expected
    else:
        assert read_or_none("csv", declared, text) == expected
        assert read_or_none("csv", declared, f"  +{text}\t" if text[0] != "-" else f" {text} ") == expected


@given(NUMBERS, st.sampled_from(["s", "ms", "us", "ns"]), st.sampled_from(["csv", "json"]))
@example("1e9", "s", "json")
@example("-0.0000005", "s", "csv")
@example("-1", "ns", "csv")
def test_a_number_is_rounded_to_the_nearest_microsecond_and_a_whole_one_down(text: str, unit: str, form: str) -> None:
    """Before 1970, too; out of the years 1 to 9999 it is a dead letter."""
    micros = Decimal(text).scaleb({"s": 6, "ms": 3, "us": 0, "ns": -3}[unit], EXACT)
    is_whole = re.fullmatch("-?[0-9]+", text) is not None
    rounded = int(micros.to_integral_value(ROUND_FLOOR if is_whole else ROUND_HALF_EVEN))
    expected = EPOCH + timedelta(microseconds=rounded) if LEAST <= rounded <= MOST else None
    assert read_or_none(form, f"timestamp({unit})", text) == expected


@given(st.text("0123456789-", min_size=8, max_size=11) | st.dates().map(str), st.sampled_from(["csv", "json"]))
@example("2000-02-29", "csv")
@example("1900-02-29", "csv")
def test_a_date_is_one_of_the_calendar(text: str, form: str) -> None:
    """As `2013-01-31` and no other way."""
    expected = None
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        try:
            expected = date.fromisoformat(text)
        except ValueError:
            expected = None
    assert read_or_none(form, "date", json.dumps(text) if form == "json" else text) == expected


@given(st.binary(max_size=40), st.text("ABab019+/-_=", max_size=9), st.booleans())
def test_bytes_are_those_that_base64_stands_for(content: bytes, text: str, is_json: bool) -> None:
    """Of both alphabets, with padding or without."""
    form, quoted = ("json", '"{}"') if is_json else ("csv", '"{}"')
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        written = encode(content).decode()
        assert read(form, "bytes", quoted.format(written)) == content
        assert read(form, "bytes", quoted.format(written.rstrip("="))) == content
    expected = None
    plain = text.rstrip("=") if len(text) % 4 == 0 and len(text) - len(text.rstrip("=")) < 3 else text
    if "=" not in plain and len(plain) % 4 != 1:
        try:
            standard = plain.translate(str.maketrans("-_", "+/"))
            expected = base64.b64decode(standard + "=" * (-len(plain) % 4), validate=True)
            if base64.b64encode(expected).decode().rstrip("=") != standard:  # bits that are not zero after the end
                expected = None
        except binascii.Error:
            expected = None
    assert read_or_none(form, "bytes", quoted.format(text)) == expected


@given(st.sampled_from(["true", "false", "t", "F", "1", "0", "TRUE", "False"]) | st.text("truefals01 ", max_size=6))
def test_a_condition_is_true_or_false(text: str) -> None:
    """In JSON only as its own words."""
    meanings = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    expected = meanings.get(text.lower())
    assert read_or_none("csv", "boolean", text) == expected
    if text in ("true", "false"):
        assert read("json", "boolean", text) == expected
    assert read_or_none("json", "boolean", json.dumps(text)) is None
