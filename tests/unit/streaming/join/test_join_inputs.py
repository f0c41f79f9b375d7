"""What a join makes of odd input, through its routers and units: the right pairs, and dead letters that say why."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.rebalance import read_explanation
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.task import probe
from springline.spark_jobs.streaming.join.wire import GREATEST, LEAST
from springline.spark_jobs.streaming.runtime.encoding import BATCH_BYTES, arrow_bytes
from springline.spark_jobs.streaming.sql.expressions import ARROW
from tests.support.joins.join_simulation import JoinSimulation, join_of

FIELDS = {"id": "int", "k": "int", "x": "float", "t": "text"}
SCHEMA = pa.schema([(name, ARROW[kind]) for name, kind in FIELDS.items()])
CONTROL = RebalanceConfig(2, min_tuples=1)
Values = tuple[Any, ...]  # id, k, x, t


def simulation_of(
    folder: Path, on: str, form: str = "csv", select: Sequence[str] = ("l.id AS l", "r.id AS r")
) -> JoinSimulation:
    """A join of two topics of one partition each."""
    left, right = Relation("l", FIELDS), Relation("r", FIELDS)
    sources = RelationSource("left", left, form), RelationSource("right", right, form)
    job = JoinJob("j", *sources, Condition.of(left, right, on, select), CONTROL, 4, max_messages_per_round=2)
    return JoinSimulation(job, folder, random.Random(on), partitions=1)


def as_csv(rows: Sequence[Values]) -> bytes:
    """A line a row; a null is nothing, an empty text two quotes."""
    lines = (("" if value is None else '""' if value == "" else str(value) for value in row) for row in rows)
    return "\n".join(map(",".join, lines)).encode()


def as_json(rows: Sequence[Values]) -> bytes:
    """A line a row; what is null is left out."""
    records = ({name: value for name, value in zip(FIELDS, row, strict=True) if value is not None} for row in rows)
    return "\n".join(map(json.dumps, records)).encode()


def as_arrow(rows: Sequence[Values]) -> bytes:
    """A batch."""
    return arrow_bytes(pa.RecordBatch.from_pylist([dict(zip(FIELDS, row, strict=True)) for row in rows], SCHEMA))


WRITERS: Mapping[str, Callable[[Sequence[Values]], bytes]] = {"csv": as_csv, "json": as_json, "arrow": as_arrow}


def run_join(
    simulation: JoinSimulation, left: Sequence[Values], right: Sequence[Values], in_a_message: int = 5
) -> Counter[Any]:
    """The pairs of ids of these rows."""
    write = WRITERS[simulation.job.left.form]
    for topic, rows in (("left", left), ("right", right)):
        for first in range(0, len(rows), in_a_message):
            part = rows[first : first + in_a_message]
            simulation.put(topic, write(part), len(part))
    simulation.finish()
    return simulation.pairs()


def matches(left: Sequence[Values], right: Sequence[Values], holds: Callable[[Values, Values], bool]) -> Counter[Any]:
    """The pairs of ids for which it holds."""
    return Counter((one[0], two[0]) for one, two in itertools.product(left, right) if holds(one, two))


@pytest.mark.parametrize("form", WRITERS)
def test_nulls_and_nan_match_nothing_and_zeros_are_equal(tmp_path: Path, form: str) -> None:
    """Whichever form they come in, as the key and beside it; an empty text is a value."""
    floats = [None, math.nan, 0.0, -0.0, math.inf, -math.inf, 1.5]
    texts = [None, "", "a"]
    rows = [(at, at % 3 or None, x, t) for at, (x, t) in enumerate(itertools.product(floats, texts))]
    holds: dict[str, Callable[[Values, Values], bool]] = {
        "l.x = r.x": lambda one, two: None not in (one[2], two[2]) and one[2] == two[2],
        "l.k = r.k AND l.x < r.x": lambda one, two: (
            None not in (one[1], two[1], one[2], two[2]) and one[1] == two[1] and one[2] < two[2]
        ),
        "l.t = r.t": lambda one, two: one[3] is not None and one[3] == two[3],
        "l.x >= r.x": lambda one, two: None not in (one[2], two[2]) and one[2] >= two[2],
        "abs(l.x - r.x) <= 0.5": lambda one, two: None not in (one[2], two[2]) and abs(one[2] - two[2]) <= 0.5,
    }
    for number, (on, predicate) in enumerate(holds.items()):
        results = run_join(simulation_of(tmp_path / str(number), on, form), rows, rows)
        assert results == matches(rows, rows, predicate), on
        assert results


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize(
    ("on", "holds"),
    [
        ("l.k = r.k", lambda one, two: one == two),
        ("abs(l.k - r.k) <= 1", lambda one, two: abs(one - two) <= 1),
        ("l.k < r.k", lambda one, two: one < two),
        ("l.k = r.k + 1", lambda one, two: one == two + 1),
        ("l.k BETWEEN r.k - 9223372036854775807 AND r.k", lambda one, two: two - GREATEST <= one <= two),
    ],
)
def test_whole_numbers_at_the_ends_of_64_bits_do_not_wrap_around(
    tmp_path: Path, form: str, on: str, holds: Callable[[int, int], bool]
) -> None:
    """Sides are compared exactly, also where a sum or a difference would not fit."""
    keys = [LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST]
    rows = [(at, key, None, None) for at, key in enumerate(keys)]
    results = run_join(simulation_of(tmp_path, on, form), rows, rows, 3)
    assert results == matches(rows, rows, lambda one, two: holds(one[1], two[1]))


def test_a_pair_for_which_something_beyond_64_bits_is_worked_out_is_none(tmp_path: Path) -> None:
    """In what is checked on pairs: it has no value there, rather than a wrong one."""
    rows = [(at, 1, None, None) for at in (1, 2, 1 << 62)]
    results = run_join(simulation_of(tmp_path, "l.k = r.k AND l.id + r.id > 0"), rows, rows, 3)
    assert results == matches(rows, rows, lambda one, two: 0 < one[0] + two[0] <= GREATEST)
    assert len(results) == 8


def test_a_whole_number_beyond_64_bits_is_a_dead_letter(tmp_path: Path) -> None:
    """And not another number."""
    simulation = simulation_of(tmp_path, "l.k = r.k")
    simulation.put("left", b"1,9223372036854775808,,\n2,-9223372036854775809,,\n3,9223372036854775807,,", 1)
    simulation.put("right", b"1,9223372036854775807,,\n2,-9223372036854775808,,", 2)
    simulation.finish()
    assert simulation.pairs() == {(3, 1): 1}
    assert [dead.headers["reason"].decode() for dead in simulation.messages("j.dead-letters")] == [
        "2 rows, the first is row 1: k is no int: 9223372036854775808"
    ]


BAD_LINES = {
    "csv": [
        (b"1,1,1,\xff\xfe", "not UTF-8, at byte 6"),
        (b"1,1,1", "3 fields instead of 4"),
        (b"x,1,1,a", "id is no int: x"),
        (b"1,1.5,1,a", "k is no int: 1.5"),
        (b"1,1,one,a", "x is no float: one"),
        (b'1,1,1,"open', "a quote is not closed, or text follows it in its field"),
        (b'1,1,1,"a"b', "a quote is not closed, or text follows it in its field"),
        (b"\x00\x01", "a byte 0, at byte 0"),
        (b"1,1,1,a,b", "5 fields instead of 4"),
        (b"x,1,1," + b"long" * 100_000, "id is no int: x"),
        (b"long" * 100_000 + b",1,1,", f"id is no int: {'long' * 15}…"),
    ],
    "json": [
        (b'{"id":1,"k":1,"t":"\xff"}', "not UTF-8, at byte 19"),
        (b'{"id":1,"k":1.0}', "k is no int: 1.0"),
        (b'{"id":1,"k":"1"}', 'k is no int: "1"'),
        (b'{"id":1,"k":9223372036854775808}', "k is no int: 9223372036854775808"),
        (b'{"id":1,"k":1,"x":1e400}', "x is no float: 1e400"),
        (b'{"id":1,"k":1,"t":5}', "t is no text: 5"),
        (b'{"id":1,"k":1,"t":"\\ud800"}', "half of a surrogate pair, at byte 19"),
        (b'{"id":1,"k":1,"k":1}', "k is there twice"),
        (b'{"id":1,"k":1', "not a JSON object, at byte 13"),
        (b'{"id":1}{"id":2}', "not a JSON object, at byte 8"),
        (b'{"id":1}null', "not a JSON object, at byte 8"),
        (b"null", "not a JSON object, at byte 0"),
        (b"[]", "not a JSON object, at byte 0"),
        (b"[" * 100_000, "not a JSON object, at byte 0"),
        (b'{"a":' + b"[" * 100_000, "not a JSON object of at most 1,000 levels, at byte 1004"),
        (b"\x00\x01", "a byte 0, at byte 0"),
    ],
}


@pytest.mark.parametrize("form", BAD_LINES)
def test_lines_that_cannot_be_used_are_dead_letters_and_those_around_them_are_joined(tmp_path: Path, form: str) -> None:
    """Each with the message that it was in, as it came, and why; whatever else is in its message."""
    simulation = simulation_of(tmp_path, "l.k = r.k AND coalesce(l.t, '') <> 'no' AND coalesce(l.x, 0) < 9", form)
    texts = {"json": ("}null", '5" nail'), "csv": ('"a ""quoted"", comma"', '5" nail')}[form]
    good = [(at, at % 3, 1.0, texts[at % 2]) for at in range(40)]
    lines = [line for line, _ in BAD_LINES[form]]
    for at, line in enumerate(lines):
        own = WRITERS[form](good[2 * at : 2 * at + 2]).split(b"\n")
        simulation.put("left", b"\n".join([own[0], line, own[1]]), 2)
    valid_rows = good[: 2 * len(lines)]
    run_join(simulation, [], good[:6])
    assert simulation.pairs() == matches(valid_rows, good[:6], lambda one, two: one[1] == two[1])
    dead = simulation.messages("j.dead-letters")
    assert [bytes(each.value) for each in dead] == [line + b"\n" for line in lines]
    for each, (_, reason) in zip(dead, BAD_LINES[form], strict=True):
        assert each.headers["reason"].decode() == f"row 2: {reason}"
    offsets = [message.offset for message in simulation.log.topics["left"][0]]
    assert [int(each.headers["offset"]) for each in dead] == offsets
    assert simulation.counts("route")["dead_letters"] == len(lines)


def test_a_null_at_the_end_of_a_message_is_one(tmp_path: Path) -> None:
    """Also behind a quoted text, and where the line ends with a delimiter."""
    fields = {"id": "int", "t": "text", "x": "float"}
    left, right = Relation("l", fields), Relation("r", fields)
    condition = Condition.of(left, right, "l.id = r.id", ["l.id AS l", "r.id AS r", "l.t", "r.x"])
    job = JoinJob(
        "j",
        RelationSource("left", left),
        RelationSource("right", right),
        condition,
        CONTROL,
        4,
        max_messages_per_round=2,
    )
    simulation = JoinSimulation(job, tmp_path, random.Random(1), partitions=1)
    simulation.put("left", b'1,"a",', 1)
    simulation.put("right", b'1,"a",,', 1)
    simulation.finish()
    assert simulation.results() == [{"l": 1, "r": 1, "t": "a", "x": None}]


def test_arrow_messages_that_cannot_be_used_are_dead_letters(tmp_path: Path) -> None:
    """As a whole: bytes that are none, cut ones, columns that are missing or of another type, texts that are none."""
    simulation = simulation_of(tmp_path, "l.k = r.k AND l.t <> ''", "arrow")
    good = [(1, 1, 1.0, "a")]
    valid_batch = pa.RecordBatch.from_pylist([dict(zip(FIELDS, good[0], strict=True))], SCHEMA)
    odd = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    large = pa.array([1 << 63], pa.uint64())
    bad = [
        (b"junk", "not an Arrow stream"),
        (arrow_bytes(valid_batch)[:-30], "not an Arrow stream"),
        (arrow_bytes(valid_batch.select(["id", "t"])), "column k is missing or duplicated; columns: id, t"),
        (arrow_bytes(valid_batch.set_column(1, "k", pa.array(["1"]))), "column k is string, but int was declared"),
        (
            arrow_bytes(valid_batch.set_column(1, "k", large)),
            "not as declared: Integer value 9223372036854775808",
        ),
        (
            arrow_bytes(valid_batch.set_column(3, "t", odd)),
            "column t: Invalid UTF8",
        ),
    ]
    for value, _ in bad:
        simulation.put("left", value, 0)
    assert run_join(simulation, good, good) == {(1, 1): 1}
    for dead, (value, reason) in zip(simulation.messages("j.dead-letters"), bad, strict=True):
        assert bytes(dead.value) == value
        assert dead.headers["reason"].decode().startswith(reason)


def test_a_dead_letter_names_the_topic_and_the_partition_that_its_message_was_in(tmp_path: Path) -> None:
    """Which are not those of the router's unit: two topics are read as one."""
    simulation = simulation_of(tmp_path, "l.k = r.k")
    for topic in ("left", "right"):
        simulation.put(topic, b"odd", 0)
    simulation.finish()
    headers = [dead.headers for dead in simulation.messages("j.dead-letters")]
    assert [(each["topic"], each["partition"]) for each in headers] == [(b"left", b"0"), (b"right", b"0")]


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 9), (9, 0)])
def test_a_stream_without_rows_delays_no_other(tmp_path: Path, left: int, right: int) -> None:
    """There are no pairs, and the rows of the other one are stored."""
    simulation = simulation_of(tmp_path, "l.k = r.k")
    rows = [(at, at, None, None) for at in range(9)]
    assert run_join(simulation, rows[:left], rows[:right]) == {}
    simulation.settle()
    assert sum(simulation.stored().values()) == left + right


def test_a_stream_that_stops_delays_no_other(tmp_path: Path) -> None:
    """What it has emitted matches all that arrives on the other one, and so does what it emits when it goes on."""
    simulation = simulation_of(tmp_path, "l.k = r.k")
    rows = [(at, at % 4, None, None) for at in range(40)]
    for left, right, pairs in ((rows[:20], rows[:5], 25), (rows[20:], [], 50), ([], rows[5:], 400)):
        results = run_join(simulation, left, right)
        assert len(results) == pairs and set(results.values()) == {1}
    assert results == matches(rows, rows, lambda one, two: one[1] == two[1])


def test_one_key_for_everything_is_split_over_the_units(tmp_path: Path) -> None:
    """Each pair once, in a number of turns that does not depend on the pairs; no unit holds much more than its part."""
    simulation = JoinSimulation(
        join_of("l.k = r.k", RebalanceConfig(4, "heavy-split", 0.05, min_tuples=1)), tmp_path, random.Random(5)
    )
    for topic, first in (("left", 0), ("right", 1_000)):
        simulation.feed(topic, [(first + at, 7, 0) for at in range(400)], 10)
    simulation.finish(300)
    simulation.settle()
    assert simulation.pairs() == {(one, two): 1 for one in range(400) for two in range(1_000, 1_400)}
    explanation = read_explanation(simulation.folder)
    assert explanation is not None
    assert max(simulation.stored().values()) <= 1.3 * 800 / 4, explanation["loads"]


def test_texts_may_be_as_long_as_a_message(tmp_path: Path) -> None:
    """As keys, and in results, of which a message then holds few; a round emits as many as memory has room for."""
    select = ["l.id AS l", "r.id AS r", "l.t AS one", "r.t AS two"]
    simulation = simulation_of(tmp_path, "l.t = r.t", "csv", select)
    texts = ["é" * 700_000, "b" * 1_500_000, "b" * 1_499_999 + "c"]
    rows = [(at, 0, None, texts[at % 3]) for at in range(6)]
    with patch.object(probe, "_CHUNK_BYTES", 5 << 20), patch.object(probe, "_MOST_BYTES", 6 << 20):
        results = run_join(simulation, rows, rows, 1)
    assert results == matches(rows, rows, lambda one, two: one[3] == two[3])
    assert all(result["one"] == result["two"] == texts[result["l"] % 3] for result in simulation.results())
    messages = simulation.messages("j.results")
    assert max(len(message.value) for message in messages) <= 2 * BATCH_BYTES
    assert len(messages) > 2


def test_texts_that_json_makes_longer_are_cut_too(tmp_path: Path) -> None:
    """A message of results stays below what a broker takes, however many bytes a character needs there."""
    simulation = simulation_of(tmp_path, "l.k = r.k", "json", ["l.id AS l", "r.id AS r", "l.t AS t"])
    rows = [(at, 1, None, "\x01" * 600_000) for at in range(6)]
    assert len(run_join(simulation, rows, [(0, 1, None, None)], 1)) == 6
    assert max(len(message.value) for message in simulation.messages("j.results")) <= 2 * BATCH_BYTES
    assert {result["t"] for result in simulation.results()} == {"\x01" * 600_000}
