"""The generators: seeded, of the shape that they declare, and countable."""

import json

import pyarrow as pa
import pyarrow.csv

from springline.spark_jobs.streaming.examples import flights
from springline.spark_jobs.streaming.examples.netflow import BLOCK, Flows
from springline.spark_jobs.streaming.windows.registry import QueryRegistry
from tests.support.decoding.windows_job import Job

CLOCK = 1_800_000_000.0  # of rounds: no row is ahead of it


def test_rows_are_the_same_for_the_same_seed_however_they_are_cut() -> None:
    """Also across the blocks that they are drawn in."""
    flows = Flows(BLOCK + 700, seed=3)
    content = b"".join(flows.messages())
    assert content == b"".join(flows.messages(size=333)) == b"".join(flows.messages(size=7))
    assert content != b"".join(Flows(BLOCK + 700, seed=4).messages())
    assert flows.table(BLOCK - 2, BLOCK + 2).equals(flows.table(0, BLOCK + 700).slice(BLOCK - 2, 4).combine_chunks())


def test_rows_have_25_fields_and_some_150_bytes() -> None:
    """As in the paper."""
    lines = b"".join(Flows(5_000).messages()).splitlines()
    assert {line.count(b",") for line in lines} == {24}
    assert 140 <= sum(len(line) + 1 for line in lines) / len(lines) <= 160


def test_keys_have_the_number_skew_and_form_that_was_asked_for() -> None:
    """Evenly, by Zipf's law, as addresses or as texts of any length."""
    even = Flows(20_000, sips=100).table(0, 20_000)
    counts = sorted(entry["counts"] for entry in even.column("sip").value_counts().to_pylist())
    assert len(counts) == 100 and counts[-1] < 2 * counts[0]
    skewed = Flows(20_000, sips=100, skew=1.0, general=True).table(0, 20_000)
    counts = sorted(entry["counts"] for entry in skewed.column("sip").value_counts().to_pylist())
    assert counts[-1] > 15 * counts[len(counts) // 2]
    assert len({len(text) for text in skewed.column("sip").unique().to_pylist()}) > 10


def test_a_share_of_rows_is_out_of_order() -> None:
    """By as much as was asked for."""
    times = Flows(20_000, disorder=0.25, delay=3.0, rate=1_000.0).table(0, 20_000).column("timestamp").to_pylist()
    delays = [1_700_000_040.0 + i / 1_000 - time for i, time in enumerate(times)]
    assert 0.2 < sum(late > 0.001 for late in delays) / 20_000 < 0.3
    assert 2.5 < max(delays) <= 3.001


def test_units_share_the_messages_in_turn() -> None:
    """Nothing is left out."""
    flows = Flows(1_000)
    units = [list(flows.messages(size=100, units=3, unit=unit)) for unit in range(3)]
    assert [len(messages) for messages in units] == [4, 3, 3]
    assert sorted(message for messages in units for message in messages) == sorted(flows.messages(size=100))


def test_flights_come_in_the_order_of_their_times_at_the_speed_that_was_asked_for() -> None:
    """All of them are good rows."""
    messages = list(flights.messages(size=100, speed=60.0, rows=2_000))
    seconds = [message.seconds for message in messages]
    assert seconds == sorted(seconds)
    assert len(messages) == 20
    registry = QueryRegistry.of([flights.flights_stream()])
    sql = "SELECT origin, time, count(*) AS n, avg(dep_delay) AS d FROM flights GROUP BY origin, time WINDOWING 1 day"
    job = Job(registry.register("q", sql), stream_name="flights")
    job.clock = CLOCK
    job.round([message.value for message in messages])
    job.finish()
    assert sum(row["n"] for row in job.rows("q")) == 2_000
    assert {row["origin"] for row in job.rows("q")} == {"EWR", "JFK", "LGA"}
    assert not job.dead


def test_every_form_has_all_rows_and_fields() -> None:
    """CSV without a header, an Arrow stream, and JSON objects, one a line."""
    table = Flows(3).table(0, 3)
    (objects,), (stream,), (lines,) = (list(Flows(3).messages(form)) for form in ("json", "arrow", "csv"))
    expected = [list(row.items()) for row in table.to_pylist()]
    assert [list(json.loads(line).items()) for line in objects.splitlines()] == expected
    assert pa.ipc.open_stream(stream).read_all().equals(table)
    read = pa.csv.read_csv(pa.py_buffer(lines), pa.csv.ReadOptions(column_names=table.column_names))
    assert [list(row.items()) for row in read.to_pylist()] == expected
