"""Joins of TPC-H with skewed keys, and of a Linear Road, find what DuckDB finds, whatever dies or moves."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.join.inputs import Roads, Tpch, fields_of
from benchmarks.join.job import message_of
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.job import JoinJob
from springline.spark_jobs.streaming.join.rebalance import read_controller_state
from springline.spark_jobs.streaming.join.router import RelationSource
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from tests.support.joins.join_simulation import JoinSimulation

_ROWS = 100  # in a message


@dataclass(frozen=True)
class Case:
    """Two streams, or one with itself (`right` is empty), and what joins them."""

    left: str
    right: str
    on: str


CASES = {
    "Q3": Case("orders", "lineitem", "l.orderkey = r.orderkey AND l.orderdate < 19950315 AND r.shipdate > 19950315"),
    "Q5": Case("customer", "orders", "l.custkey = r.custkey AND r.orderdate >= 19940101 AND r.orderdate < 19950101"),
    "Band": Case(
        "lineitem",
        "",
        "abs(l.orderkey - r.orderkey) <= 1 AND l.shipmode = 'TRUCK' AND r.shipinstruct = 'NONE' AND l.quantity > 48",
    ),
    "Linear Road": Case("roads", "", "l.speed = r.speed AND l.lane = r.lane AND l.dir = r.dir AND l.vid <> r.vid"),
    "inequality": Case("orders", "lineitem", "l.orderdate > r.shipdate AND r.quantity > 49 AND l.custkey = 1"),
}


def numbered(name: str, z: float) -> pa.Table:
    """A stream's rows, each with an id."""
    if name == "roads":
        table = Roads(1_200, vehicles=300).table()
    else:
        table = Tpch(0.0005, z).table(name).slice(0, 3_000)
    return table.append_column("id", pa.array(np.arange(table.num_rows)))


def fed(
    case: Case, z: float, control: RebalanceConfig, folder: Path, chance: random.Random
) -> tuple[JoinSimulation, Counter]:
    """A join whose streams are on their way, and the pairs of ids that DuckDB finds."""
    tables = {name: numbered(name, z) for name in (case.left, case.right) if name}
    left, right = tables[case.left], tables[case.right or case.left]
    sides = Relation("l", fields_of(left)), Relation("r", fields_of(right))
    condition = Condition.of(*sides, case.on, ["l.id AS l", "r.id AS r"])
    sources = [
        RelationSource(name, side, "arrow")
        for name, side in zip((case.left, case.right or case.left), sides, strict=True)
    ]
    simulation = JoinSimulation(JoinJob("j", *sources, condition, control, 8, max_messages_per_round=1), folder, chance)
    parts = [(name, table.slice(at, _ROWS)) for name, table in tables.items() for at in range(0, len(table), _ROWS)]
    for name, part in sorted(parts, key=lambda _: chance.random()):
        simulation.put(name, message_of(part), part.num_rows)
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        return simulation, Counter(connection.sql(f"SELECT l.id, r.id FROM l JOIN r ON {case.on}").fetchall())


@pytest.mark.parametrize(
    ("name", "z"), [("Q3", 1.5), ("Q5", 2.0), ("Band", 1.5), ("Linear Road", 0.0), ("inequality", 1.0)]
)
def test_it_finds_what_duckdb_finds_while_units_die_and_become_more_and_fewer(name: str, z: float) -> None:
    """Four units, eight, three: routers and units die as they store, probe, copy and switch, and states are lost."""
    chance = random.Random(f"{name} {z}")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        control = RebalanceConfig(4, migration_tuples=200, in_flight_tuples=2_000, min_tuples=5)
        simulation, expected_pairs = fed(CASES[name], z, control, Path(folder), chance)
        simulation.run(1)
        for units, loses in ((8, ""), (8, "join"), (3, "route"), (3, "")):
            simulation.want_units(units)
            simulation.run(2, chance.randrange(10, 120), loses)
            simulation.die_in_controller(chance.randrange(3), polls=1)
        simulation.finish()
        simulation.settle()
        assert simulation.pairs() == expected_pairs and expected_pairs.total() > 50
        assert simulation.switched() and read_controller_state(simulation.folder).table.units == (0, 1, 2)
