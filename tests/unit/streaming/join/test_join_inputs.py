"""What a join makes of odd input, through its routers and units: the right pairs, and dead letters that say why."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.rebalance import read_explanation
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.task import probe
from springline.spark_jobs.streaming.runtime.encoding import BATCH_BYTES
from tests.support.joins.join_simulation import JoinSimulation, join_of

FIELDS = {"id": "int", "k": "int", "x": "float", "t": "text"}
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


WRITERS: Mapping[str, Callable[[Sequence[Values]], bytes]] = {"csv": as_csv, "json": as_json}


def run_join(
    simulation: JoinSimulation, left: Sequence[Values], right: Sequence[Values], in_a_message: int = 5
) -> Counter[Any]:
    """The pairs of ids of these rows."""
    write = WRITERS[simulation.job.left.format]
    for topic, rows in (("left", left), ("right", right)):
        for first in range(0, len(rows), in_a_message):
            part = rows[first : first + in_a_message]
            simulation.put(topic, write(part), len(part))
    simulation.finish()
    return simulation.pairs()


def matches(left: Sequence[Values], right: Sequence[Values], holds: Callable[[Values, Values], bool]) -> Counter[Any]:
    """The pairs of ids for which it holds."""
    return Counter((one[0], two[0]) for one, two in itertools.product(left, right) if holds(one, two))


BAD_LINES = {
    "csv": [
        (b"1,1,1,\xff\xfe", "not UTF-8, at byte 6"),
        (b"1,1.5,1,a", "k is no int: 1.5"),
        (b'1,1,1,"open', "a quote is not closed, or text follows it in its field"),
        (b"1,1,1,a,b", "5 fields instead of 4"),
        (b"1,9223372036854775808,,", "k is no int: 9223372036854775808"),
    ],
    "json": [
        (b'{"id":1,"k":1,"t":"\xff"}', "not UTF-8, at byte 19"),
        (b'{"id":1,"k":1.0}', "k is no int: 1.0"),
        (b'{"id":1}{"id":2}', "not a JSON object, at byte 8"),
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


def test_a_dead_letter_names_the_topic_and_the_partition_that_its_message_was_in(tmp_path: Path) -> None:
    """Which are not those of the router's unit: two topics are read as one."""
    simulation = simulation_of(tmp_path, "l.k = r.k")
    for topic in ("left", "right"):
        simulation.put(topic, b"odd", 0)
    simulation.finish()
    headers = [dead.headers for dead in simulation.messages("j.dead-letters")]
    assert [(each["topic"], each["partition"]) for each in headers] == [(b"left", b"0"), (b"right", b"0")]


def test_a_stream_without_rows_and_one_that_stops_delay_no_other(tmp_path: Path) -> None:
    """What it has emitted matches all that arrives on the other one, and so does what it emits when it goes on."""
    simulation = simulation_of(tmp_path, "l.k = r.k")
    rows = [(at, at % 4, None, None) for at in range(40)]
    for left, right, pairs in ((rows[:20], [], 0), ([], rows[:5], 25), (rows[20:], [], 50), ([], rows[5:], 400)):
        results = run_join(simulation, left, right)
        assert len(results) == pairs and set(results.values()) <= {1}
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
