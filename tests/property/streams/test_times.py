"""A time is the same one in every format, unit and zone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from springline.spark_jobs.streaming.runtime.json_lines import encode_large, encode_small
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.runtime.step import DeadLetter
from springline.spark_jobs.streaming.sources.decoder import Decoder
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.schema import Field, Stream
from springline.spark_jobs.streaming.sql.windowing import instant
from tests.support.decoding.windows_job import ipc
from tests.support.examples import examples

UNIT_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
EARLIEST, LATEST = -62_135_596_800, 253_402_300_800  # the years 1 to 9999
NANOS = st.integers(EARLIEST * 10**9, LATEST * 10**9 - 1) | st.integers(-(10**10), 10**10)
NANOS_IN_64_BITS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**10), 10**10)
NANOS_IN_DOUBLES = st.integers(-2 * 10**15, 2 * 10**15).map(lambda micros: micros * 1_000) | st.integers(
    -(10**7), 10**7
)
ZONES: list[tuple[str, int]] = [
    *(("", 0), ("Z", 0), ("+00:00", 0), ("-00:00", 0), ("+01:00", 60), ("-09:30", -570), ("+0545", 345)),
    *(("-08", -480), ("+14:00", 840), ("+23:59", 1439)),
]


def times(form: str, declared: str, *values: bytes) -> tuple[list[int], list[DeadLetter]]:
    """The event times of some messages of one field, in microseconds, and the letters of what has none."""
    of = Stream(
        "S", (Field("t", declared),), "t", format=form, min_event_time=EARLIEST, max_event_time=LATEST,
        max_future_skew=None,
    )  # fmt: skip
    dead: list[DeadLetter] = []
    messages = [Message(offset, value) for offset, value in enumerate(values)]
    chunks = Decoder(of, open_format(of.layout, {"t"}), 0.0, dead).chunks([MessageBatch.of(messages)])
    return [int(each) for chunk in chunks for each in chunk.times], dead


def written(form: str, value: float | str) -> bytes:
    """A message of one value."""
    return json.dumps({"t": value}).encode() if form == "json" else f'"{value}"\n'.encode()


@settings(max_examples=examples(300), deadline=None)
@given(
    NANOS, st.sampled_from(ZONES), st.integers(0, 9), st.sampled_from(" T"), st.sampled_from(".,"),
    st.sampled_from(["csv", "json"]),
)  # fmt: skip
def test_a_text_is_its_instant(
    nanos: int, zone: tuple[str, int], digits: int, separator: str, point: str, form: str
) -> None:
    """With any offset and up to nine digits of a second, for streams as for SQL, ranges and landmarks."""
    seconds, fraction = divmod(nanos // 10 ** (9 - digits), 10**digits)
    try:
        local = datetime(1970, 1, 1) + timedelta(seconds=seconds, minutes=zone[1])
    except OverflowError:
        assume(False)
    text = local.isoformat(separator) + (f"{point}{fraction:0{digits}}" if digits else "") + zone[0]
    expected = nanos // 10 ** (9 - digits) * 10 ** (9 - digits) // 1_000
    assert times(form, "timestamp", written(form, text)) == ([expected], [])
    assert instant(text) == expected


@settings(max_examples=examples(100), deadline=None)
@given(NANOS, st.sampled_from([None, "UTC"]), st.sampled_from([encode_small, encode_large]))
def test_each_time_that_a_job_writes_can_be_the_time_of_another(
    nanos: int, zone: str | None, encode: Callable[[pa.RecordBatch], bytes | None]
) -> None:
    """A result's window_start is the event time of a job that reads the results."""
    line = encode(pa.record_batch({"t": pa.array([nanos // 1_000], pa.timestamp("us", zone))}))
    assert line is not None
    assert times("json", "timestamp", line) == ([nanos // 1_000], [])


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.sampled_from(list(UNIT_NANOS)), st.sampled_from(["csv", "json", "arrow"]))
def test_a_number_is_its_instant(data: st.DataObject, unit: str, form: str) -> None:
    """Whole numbers of any unit; decimal ones where a double can hold a microsecond."""
    nanos = data.draw(NANOS_IN_64_BITS if unit == "ns" else NANOS)
    value = nanos // UNIT_NANOS[unit]
    message = ipc(pa.record_batch({"t": pa.array([value], pa.int64())})) if form == "arrow" else written(form, value)
    assert times(form, f"timestamp({unit})", message) == ([value * UNIT_NANOS[unit] // 1_000], [])
    micros = data.draw(NANOS_IN_DOUBLES) // 1_000
    number = micros / (UNIT_NANOS[unit] // 1_000) if unit != "ns" else micros * 1e3
    message = ipc(pa.record_batch({"t": [number]})) if form == "arrow" else written(form, number)
    assert times(form, f"timestamp({unit})", message) == ([micros], [])


@settings(max_examples=examples(300), deadline=None)
@given(
    NANOS, st.sampled_from(["timestamp", *(f"timestamp({unit})" for unit in UNIT_NANOS)]),
    st.sampled_from(list(UNIT_NANOS)), st.sampled_from([None, "UTC", "+05:45", "America/St_Johns"]),
)  # fmt: skip
def test_a_timestamp_of_arrow_is_its_instant(nanos: int, declared: str, source: str, zone: str | None) -> None:
    """Of any unit and zone, before 1970 too, whatever unit is declared; nanoseconds are rounded down."""
    assume(source != "ns" or -(2**63) <= nanos < 2**63)
    value = nanos // UNIT_NANOS[source]
    message = ipc(pa.record_batch({"t": pa.array([value], pa.timestamp(source, zone))}))
    assert times("arrow", declared, message) == ([value * UNIT_NANOS[source] // 1_000], [])


@pytest.mark.parametrize("unit", UNIT_NANOS)
@pytest.mark.parametrize("form", ["csv", "json", "arrow"])
@given(st.sampled_from([-(2**63), 2**63 - 1]))
@example(-(2**63))
def test_a_number_beyond_all_years_is_no_time(form: str, unit: str, value: int) -> None:
    """The least integer has no absolute value; the good row beside it is used."""
    if form == "arrow":
        message = ipc(pa.record_batch({"t": pa.array([value, 0])}))
    else:
        message = written(form, value).rstrip() + b"\n" + written(form, 0)
    messages = [(f"timestamp({unit})", message)]
    if form == "arrow":
        messages.append(("timestamp", ipc(pa.record_batch({"t": pa.array([value, 0], pa.timestamp("s"))}))))
    for declared, each in messages:
        used, dead = times(form, declared, each)
        if declared == "timestamp(ns)":  # the years 1677 and 2262
            assert used == [value // 1_000, 0]
        else:
            assert used == [0] and [letter.reason.partition(": t is ")[0] for letter in dead] == ["row 1"]
