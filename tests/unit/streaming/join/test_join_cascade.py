"""Joins that read the results of other joins: queries over more than two streams, compared with DuckDB."""

from __future__ import annotations

import base64
import itertools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.sources.field_types import arrow_type, type_name
from tests.support.joins.join_simulation import JoinSimulation

Row = tuple[Any, ...]
CONTROL = RebalanceConfig(2, max_imbalance=0.0, migration_tuples=20, min_tuples=1)
TABLES: dict[str, dict[str, str]] = {
    "customer": {"custkey": "int", "mktsegment": "text", "nationkey": "int"},
    "orders": {"orderkey": "int", "custkey": "int", "orderdate": "text", "totalprice": "float"},
    "lineitem": {"orderkey": "int", "suppkey": "int", "price": "float", "discount": "float", "shipdate": "text"},
    "supplier": {"suppkey": "int", "nationkey": "int"},
    "nation": {"nationkey": "int", "name": "text", "regionkey": "int"},
}


def rows_of(chance: random.Random) -> dict[str, list[Row]]:
    """A small TPC-H with a few heavy keys, nulls, and dates as texts."""

    def date() -> str | None:
        return chance.choice([None, *(f"1995-0{month}-1{chance.randrange(10)}" for month in range(1, 7))])

    segments = ["BUILDING", "AUTOMOBILE", None]
    orders = [
        (at, chance.choice([3, chance.randrange(12), None]), date(), chance.choice([None, chance.random() * 1e5]))
        for at in range(60)
    ]
    items = [
        (chance.choice([7, chance.randrange(60)]), chance.randrange(6), chance.random() * 1e4, at % 11 / 100, date())
        for at in range(150)
    ]
    return {
        "customer": [(at, segments[at % 3], at % 5) for at in range(12)],
        "orders": [*orders[:7], (7, 3, "1995-03-15", None), *orders[8:]],
        "lineitem": items,
        "supplier": [(at, at % 5) for at in range(6)],
        "nation": [(at, f'nation "{at} é', at % 2) for at in range(5)],
    }


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder in memory: there are many small files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


class Cascade:
    """Joins, each of which reads the results of the one before as its left side; `steps` are (name, right, on, select).

    Fields of results have the types that the columns of the join before have.
    """

    def __init__(self, folder: Path, first: str, steps: Sequence[Row], tables: Any, rows: Any, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows = rows
        self._passed_counts: Counter[tuple[str, int]] = (
            Counter()
        )  # messages of a unit of results that the next join has got
        left = RelationSource(first, Relation(first, tables[first]))
        self.simulations: list[JoinSimulation] = []
        for name, right, on, select in steps:
            other = RelationSource(right, Relation(right, tables[right]))
            condition = Condition.of(left.relation, other.relation, on, select)
            job = JoinJob(name, left, other, condition, CONTROL, 4, max_messages_per_round=2)
            self.simulations.append(JoinSimulation(job, folder / name, self.chance, partitions=1))
            fields = {field.name: type_name(field.type) for field in condition.schema}
            left = RelationSource(job.results, Relation(name, fields), "json")
        for number, simulation in enumerate(self.simulations):
            for source in (simulation.job.left, simulation.job.right):
                if source.topic in rows and (number == 0 or source is simulation.job.right):
                    self._feed(simulation, source.topic, rows[source.topic])

    def _feed(self, simulation: JoinSimulation, topic: str, rows: Sequence[Row]) -> None:
        for first in range(0, len(rows), 4):
            part = rows[first : first + 4]
            simulation.put(topic, "\n".join(",".join(map(_cell, row)) for row in part).encode(), len(part))

    def finish(self, *, dying: bool = False) -> list[dict[str, Any]]:
        """Run all of it, each join beside the others, and at times one that dies; what the last one emits."""
        for _ in range(12 if dying else 0):
            for simulation in self.simulations:
                simulation.run(2, self.chance.choice([None, 20, 60]))
            self._pass_on()
        for simulation in self.simulations:
            simulation.finish()
            self._pass_on()
        return self.simulations[-1].results()

    def _pass_on(self) -> None:
        for simulation, after in itertools.pairwise(self.simulations):
            for unit, messages in enumerate(simulation.log.topics[simulation.job.results]):
                for message in messages[self._passed_counts[simulation.job.name, unit] :]:
                    value = bytes(message.value)
                    after.put(simulation.job.results, value, value.count(b"\n"))
                self._passed_counts[simulation.job.name, unit] = len(messages)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else repr(value)


def by_duckdb(sql: str, tables: Mapping[str, Mapping[str, str]], rows: Mapping[str, Sequence[Row]]) -> Counter[Row]:
    """The rows that DuckDB finds."""
    with duckdb.connect() as connection:
        for name, fields in tables.items():
            schema = pa.schema([(field, arrow_type(kind)) for field, kind in fields.items()])
            records = [dict(zip(fields, row, strict=True)) for row in rows[name]]
            connection.register(name, pa.Table.from_pylist(records, schema))
        return Counter(connection.sql(sql).fetchall())


Q3 = [
    ("co", "orders", "customer.custkey = orders.custkey AND customer.mktsegment = 'BUILDING'",
     ["orders.orderkey", "orders.orderdate", "orders.totalprice"]),
    ("col", "lineitem", "co.orderkey = lineitem.orderkey AND orderdate < '1995-05' AND shipdate > '1995-02'",
     ["co.orderkey", "orderdate", "totalprice", "price * (1 - discount) AS revenue", "shipdate"]),
]  # fmt: skip
Q3_SQL = """
    SELECT orderkey, orderdate, totalprice, price * (1 - discount), shipdate
    FROM customer JOIN orders USING (custkey) JOIN lineitem USING (orderkey)
    WHERE mktsegment = 'BUILDING' AND orderdate < '1995-05' AND shipdate > '1995-02'
"""
Q5 = [
    ("co", "orders", "customer.custkey = orders.custkey", ["orders.orderkey", "nationkey", "orderdate"]),
    ("col", "lineitem", "co.orderkey = lineitem.orderkey",
     ["co.nationkey", "suppkey", "orderdate", "price", "discount"]),
    ("cols", "supplier", "col.suppkey = supplier.suppkey AND col.nationkey = supplier.nationkey",
     ["col.nationkey", "orderdate", "price * (1 - discount) AS revenue"]),
    ("all5", "nation", "cols.nationkey = nation.nationkey AND nation.regionkey = 1", ["name", "orderdate", "revenue"]),
]  # fmt: skip
Q5_SQL = """
    SELECT name, orderdate, price * (1 - discount)
    FROM customer JOIN orders USING (custkey) JOIN lineitem USING (orderkey)
    JOIN supplier ON lineitem.suppkey = supplier.suppkey AND customer.nationkey = supplier.nationkey
    JOIN nation ON nation.nationkey = customer.nationkey
    WHERE regionkey = 1
"""


@pytest.mark.parametrize(("steps", "sql"), [(Q3, Q3_SQL), (Q5, Q5_SQL)], ids=["Q3", "Q5"])
def test_a_query_over_many_streams_is_a_cascade_of_joins(in_memory: Path, steps: Sequence[Row], sql: str) -> None:
    """The rows that DuckDB finds, each once, though processes of all joins die meanwhile."""
    rows = rows_of(random.Random(1))
    cascade = Cascade(in_memory, "customer", steps, TABLES, rows, 1)
    results = Counter(tuple(result.values()) for result in cascade.finish(dying=True))
    assert results == by_duckdb(sql, TABLES, rows)
    assert results.total() > 10
    assert not any(simulation.messages(simulation.job.dead_letters) for simulation in cascade.simulations)


def test_values_come_through_a_cascade_as_they_were(in_memory: Path) -> None:
    """Whole numbers of 64 bits, doubles to the last bit and infinities, any text, and nulls; NaN is null."""
    ints = [-(1 << 63), (1 << 63) - 1, (1 << 53) + 1, None, 0]
    floats = [0.1 + 0.2, 1e300, 5e-324, -0.0, None, 1.7976931348623157e308, 123456789012345680.0, 1 / 3]
    texts = ["", None, 'a"b', "é\u2028\x01\x1f", "}null", "\\", "\U0001f600", " x "]
    values = [(at, ints[at % 5], floats[at % 8], texts[at // 5 % 8]) for at in range(40)]
    odd = [(40, 0, float("inf"), "odd"), (41, 0, float("nan"), "odd")]
    fields = {"id": "int", "i": "int", "x": "float", "t": "text"}
    tables = {"a": fields, "b": {"id": "int"}, "c": {"id": "int"}}
    rows = {"a": [*values, *odd], "b": [(at,) for at in range(42)], "c": [(at,) for at in range(42)]}
    names = ["id", "i", "x", "t"]
    steps = [
        ("ab", "b", "a.id = b.id", [f"a.{name}" for name in names]),
        ("abc", "c", "ab.id = c.id", [f"ab.{name}" for name in names]),
    ]
    results = {
        result["id"]: tuple(result.values()) for result in Cascade(in_memory, "a", steps, tables, rows, 1).finish()
    }
    assert {row[0]: json.dumps(row) for row in results.values()} == {
        row[0]: json.dumps(row) for row in [*values, (40, 0, "Infinity", "odd"), (41, 0, None, "odd")]
    }


TYPED = {
    "bills": {
        "id": "int",
        "day": "date",
        "amount": "decimal(9, 2)",
        "paid": "boolean",
        "ts": "timestamp",
        "mark": "bytes",
    },
    "rates": {"day": "date", "rate": "decimal(6, 4)", "valid": "boolean", "since": "timestamp", "mark": "bytes"},
}


@pytest.mark.parametrize(
    "on",
    [
        "l.day = r.day", "l.amount = r.rate", "l.ts = r.since", "l.mark = r.mark AND l.paid = r.valid",
        "l.ts < r.since", "l.day >= r.day AND l.amount > 2.5", "abs(l.amount - r.rate) <= 0.75", "l.amount < r.rate",
        "l.id = r.rate", "l.ts = r.day", "l.day = r.day AND l.amount = r.rate", "l.paid = r.valid AND l.mark <> r.mark",
    ],
)  # fmt: skip
def test_a_join_compares_values_of_all_types(in_memory: Path, on: str) -> None:
    """As a database does, whether a key is an integer, a double or a hash; and emits them as they were."""
    chance = random.Random(5)
    days = [date(2013, 1, 1), date(2013, 1, 2), date(1969, 12, 31), None]
    times = [datetime(2013, 1, 2, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None]
    amounts, rates = ["2.50", "0.00", "-1.25", "3.00"], ["2.5000", "2.5001", "-1.2500", "3.0000"]
    flags, marks = [True, False, None], [b"\xff\0", b"", b"a", None]
    pick = chance.choice
    rows = {
        "bills": [
            (at % 5, pick(days), Decimal(pick(amounts)), pick(flags), pick(times), pick(marks)) for at in range(40)
        ],
        "rates": [(pick(days), Decimal(pick(rates)), pick(flags), pick(times), pick(marks)) for at in range(30)],
    }
    select = [
        "l.id",
        "l.day AS ld",
        "amount",
        "paid",
        "ts",
        "l.mark AS lm",
        "rate",
        "r.mark AS rm",
        "amount * rate AS tax",
    ]
    left, right = (
        RelationSource(name, Relation(alias, TYPED[name])) for alias, name in (("l", "bills"), ("r", "rates"))
    )
    condition = Condition.of(left.relation, right.relation, on, select)
    simulation = JoinSimulation(
        JoinJob("typed", left, right, condition, CONTROL, 4, max_messages_per_round=2), in_memory, chance, partitions=1
    )
    for topic, of_topic in rows.items():
        for first in range(0, len(of_topic), 4):
            part = of_topic[first : first + 4]
            simulation.put(topic, "\n".join(",".join(map(_typed_cell, row)) for row in part).encode(), len(part))
    for _ in range(4):
        simulation.run(2, chance.choice([None, 20, 60]))
    simulation.finish()
    results = Counter(tuple(map(str, result.values())) for result in simulation.results())
    sql = f"SELECT {', '.join(select)} FROM bills l JOIN rates r ON {on}"
    expected = Counter(tuple(map(_emitted, row)) for row in by_duckdb(sql, TYPED, rows).elements())
    assert results == expected and expected


def _typed_cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    return "" if value is None else str(value)


def _emitted(value: Any) -> str:
    """A value as a job emits it, as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        precision = "microseconds" if value.microsecond else "seconds"
        return value.replace(tzinfo=UTC).isoformat(timespec=precision)
    return str(float(value)) if isinstance(value, Decimal) else str(value)
