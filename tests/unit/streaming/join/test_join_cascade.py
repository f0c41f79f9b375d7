"""A join that reads the results of another join: queries over more than two streams."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.sql.expressions import ARROW
from tests.support.joins.join_world import JoinWorld

FIELDS = {"id": "int", "i": "int", "x": "float", "t": "text"}
IDS = [(number,) for number in range(42)]


def join_by_id(folder: Path, left: RelationSource, right: str) -> JoinWorld:
    """A join that shows all columns of its left side, with the ids of its right side as its input."""
    source = RelationSource(right, Relation(right, {"id": "int"}))
    alias = left.relation.alias
    columns = [f"{alias}.{name}" for name in FIELDS]
    condition = Condition.of(left.relation, source.relation, f"{alias}.id = {right}.id", columns)
    job = JoinJob(f"{alias}{right}", left, source, condition, RebalanceConfig(2), 4, max_messages_per_round=2)
    world = JoinWorld(job, folder / job.name, random.Random(1), partitions=1)
    feed(world, right, IDS)
    return world


def feed(world: JoinWorld, topic: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Rows as CSV, four a message."""
    for first in range(0, len(rows), 4):
        part = rows[first : first + 4]
        world.put(topic, "\n".join(",".join(map(cell, row)) for row in part).encode(), len(part))


def cell(value: Any) -> str:
    """A value as CSV."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else repr(value)


def fields_of(condition: Condition) -> Mapping[str, str]:
    """The fields of a join's results, with the types that its columns have."""
    types = {arrow: name for name, arrow in ARROW.items() if name in ("int", "float", "text")}
    return {field.name: types[field.type] for field in condition.schema}


def test_values_come_through_a_cascade_as_they_were(tmp_path: Path) -> None:
    """Whole numbers of 64 bits, doubles to the last bit, any text, and nulls; what JSON has no number for is null."""
    ints = [-(1 << 63), (1 << 63) - 1, (1 << 53) + 1, None, 0]
    floats = [0.1 + 0.2, 1e300, 5e-324, -0.0, None, 1.7976931348623157e308, 123456789012345680.0, 1 / 3]
    texts = ["", None, 'a"b', "é\u2028\x01\x1f", "}null", "\\", "\U0001f600", " x "]
    values = [(at, ints[at % 5], floats[at % 8], texts[at // 5 % 8]) for at in range(40)]
    first = join_by_id(tmp_path, RelationSource("a", Relation("a", FIELDS)), "b")
    feed(first, "a", [*values, (40, 0, float("inf"), "odd"), (41, 0, float("nan"), "odd")])
    first.finish()
    results = RelationSource(first.job.results, Relation("ab", fields_of(first.job.condition)), "json")
    second = join_by_id(tmp_path, results, "c")
    for message in first.messages(first.job.results):
        second.put(first.job.results, bytes(message.value), bytes(message.value).count(b"\n"))
    second.finish()
    rows = {result["id"]: json.dumps(tuple(result.values())) for result in second.results()}
    assert rows == {row[0]: json.dumps(row) for row in [*values, (40, 0, None, "odd"), (41, 0, None, "odd")]}
