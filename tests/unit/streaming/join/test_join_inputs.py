"""What a join makes of unusual input: dead letters, streams that stop, one key for everything, long texts."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.rebalance import read_explanation
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.task import probe
from springline.spark_jobs.streaming.runtime.encoding import BATCH_BYTES
from tests.support.joins.join_world import JoinWorld, join_of

FIELDS = {"id": "int", "k": "int", "x": "float", "t": "text"}
CONTROL = RebalanceConfig(2, min_tuples=1)
Values = tuple[Any, ...]  # id, k, x, t


def world_of(folder: Path, on: str, form: str = "csv", select: Sequence[str] = ("l.id AS l", "r.id AS r")) -> JoinWorld:
    """A join of two topics of one partition each."""
    left, right = Relation("l", FIELDS), Relation("r", FIELDS)
    sources = RelationSource("left", left, form), RelationSource("right", right, form)
    job = JoinJob("j", *sources, Condition.of(left, right, on, select), CONTROL, 4, max_messages_per_round=2)
    return JoinWorld(job, folder, random.Random(on), partitions=1)


def as_csv(rows: Sequence[Values]) -> bytes:
    """A line a row; a null is nothing, an empty text two quotes."""
    lines = (("" if value is None else '""' if value == "" else str(value) for value in row) for row in rows)
    return "\n".join(map(",".join, lines)).encode()


def as_json(rows: Sequence[Values]) -> bytes:
    """A line a row; what is null is left out."""
    records = ({name: value for name, value in zip(FIELDS, row, strict=True) if value is not None} for row in rows)
    return "\n".join(map(json.dumps, records)).encode()


WRITERS: Mapping[str, Callable[[Sequence[Values]], bytes]] = {"csv": as_csv, "json": as_json}


def run_join(world: JoinWorld, left: Sequence[Values], right: Sequence[Values], in_a_message: int = 5) -> Counter[Any]:
    """The pairs of ids of these rows."""
    write = WRITERS[world.job.left.form]
    for topic, rows in (("left", left), ("right", right)):
        for first in range(0, len(rows), in_a_message):
            part = rows[first : first + in_a_message]
            world.put(topic, write(part), len(part))
    world.finish()
    return world.pairs()


def matches(left: Sequence[Values], right: Sequence[Values], holds: Callable[[Values, Values], bool]) -> Counter[Any]:
    """The pairs of ids for which it holds."""
    return Counter((one[0], two[0]) for one, two in itertools.product(left, right) if holds(one, two))


def test_a_dead_letter_names_the_topic_and_the_partition_that_its_message_was_in(tmp_path: Path) -> None:
    """Which are not those of the router's unit: two topics are read as one."""
    world = world_of(tmp_path, "l.k = r.k")
    for topic in ("left", "right"):
        world.put(topic, b"odd", 0)
    world.finish()
    headers = [dead.headers for dead in world.messages("j.dead-letters")]
    assert [(each["topic"], each["partition"]) for each in headers] == [(b"left", b"0"), (b"right", b"0")]


def test_a_stream_that_stops_holds_nobody_up(tmp_path: Path) -> None:
    """What it has told is found by all that comes on the other one, and by what it tells when it goes on."""
    world = world_of(tmp_path, "l.k = r.k")
    rows = [(at, at % 4, None, None) for at in range(40)]
    for left, right, pairs in ((rows[:20], rows[:5], 25), (rows[20:], [], 50), ([], rows[5:], 400)):
        results = run_join(world, left, right)
        assert len(results) == pairs and set(results.values()) == {1}
    assert results == matches(rows, rows, lambda one, two: one[1] == two[1])


def test_one_key_for_everything_is_split_over_the_units(tmp_path: Path) -> None:
    """Each pair once, in a number of turns that does not depend on the pairs; no unit holds much more than its part."""
    world = JoinWorld(
        join_of("l.k = r.k", RebalanceConfig(4, "heavy-split", 0.05, min_tuples=1)), tmp_path, random.Random(5)
    )
    for topic, first in (("left", 0), ("right", 1_000)):
        world.feed(topic, [(first + at, 7, 0) for at in range(400)], 10)
    world.finish(300)
    world.settle()
    assert world.pairs() == {(one, two): 1 for one in range(400) for two in range(1_000, 1_400)}
    explanation = read_explanation(world.folder)
    assert explanation is not None
    assert max(world.stored().values()) <= 1.3 * 800 / 4, explanation["loads"]


def test_texts_may_be_as_long_as_a_message(tmp_path: Path) -> None:
    """As keys, and in results, of which a message then holds few; a round tells no more of them than memory has."""
    select = ["l.id AS l", "r.id AS r", "l.t AS one", "r.t AS two"]
    world = world_of(tmp_path, "l.t = r.t", "csv", select)
    texts = ["é" * 700_000, "b" * 1_500_000, "b" * 1_499_999 + "c"]
    rows = [(at, 0, None, texts[at % 3]) for at in range(6)]
    with patch.object(probe, "_CHUNK_BYTES", 5 << 20), patch.object(probe, "_MOST_BYTES", 6 << 20):
        results = run_join(world, rows, rows, 1)
    assert results == matches(rows, rows, lambda one, two: one[3] == two[3])
    assert all(result["one"] == result["two"] == texts[result["l"] % 3] for result in world.results())
    messages = world.messages("j.results")
    assert max(len(message.value) for message in messages) <= 2 * BATCH_BYTES
    assert len(messages) > 2


def test_texts_that_json_makes_longer_are_cut_too(tmp_path: Path) -> None:
    """A message of results stays below what a broker takes, however many bytes a character needs there."""
    world = world_of(tmp_path, "l.k = r.k", "json", ["l.id AS l", "r.id AS r", "l.t AS t"])
    rows = [(at, 1, None, "\x01" * 600_000) for at in range(6)]
    assert len(run_join(world, rows, [(0, 1, None, None)], 1)) == 6
    assert max(len(message.value) for message in world.messages("j.results")) <= 2 * BATCH_BYTES
    assert {result["t"] for result in world.results()} == {"\x01" * 600_000}
