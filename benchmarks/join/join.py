"""A join of skewed streams from Kafka to Kafka: every strategy, Spark's own join, DuckDB's.

What counts is tuples a second of CPU with everything in it, since broker, Spark and tasks share two cores; and what
the busiest unit takes, which bounds a join that has a core a unit: it is measured with a task a unit, of Band.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from benchmarks.join.inputs import STRATEGIES, Roads, Tpch
from benchmarks.join.job import TASKS, Case, Joined, measure
from benchmarks.join.peers import Peer, with_duckdb, with_duckdb_on_topics, with_pyspark
from benchmarks.report import Goal, Report, Row
from benchmarks.streams.broker import place
from benchmarks.streams.cpu import TITLE
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig

OURS = "heavy-split-work"
Z = 1.5
UNITS = 24
_SAME_WORK = {"Q3": 0.35, "Band": 0.5}  # goals beside DuckDB on the same work

_Q3 = "l.orderkey = r.orderkey AND l.orderdate < 19950315 AND r.shipdate > 19950315"
_BAND = (
    "abs(l.orderkey - r.orderkey) <= 1 AND l.shipmode = 'TRUCK' AND r.shipinstruct = 'NONE' AND l.quantity > 48"
)  # fmt: skip
_ROADS = "l.speed = r.speed AND l.lane = r.lane AND l.dir = r.dir AND l.vid <> r.vid"


def orders(scale: float, z: float = Z) -> Case:
    """TPC-H Q3's join of orders and their items; few pairs, many tuples."""
    tpch = Tpch(scale, z)
    left = tpch.table("orders").select(["orderkey", "custkey", "orderdate", "shippriority"])
    right = tpch.table("lineitem").select(["orderkey", "extendedprice", "shipdate"])
    return Case("Q3", (left, right), _Q3, ("l.orderkey", "l.shippriority", "r.extendedprice"))


def band(scale: float, z: float = Z) -> Case:
    """The paper's Band: LINEITEM with itself; pairs dominate."""
    items = Tpch(scale, z).table("lineitem").select(["orderkey", "shipmode", "shipinstruct", "quantity"])
    return Case("Band", (items,), _BAND, ("l.orderkey", "r.quantity"), size=2_000)


def roads(rows: int) -> Case:
    """The paper's self-join of a Linear Road's reports; pairs dominate."""
    return Case("Linear Road", (Roads(rows).table(),), _ROADS, ("l.vid AS one", "r.vid AS other", "l.time"), size=500)


def run(size: str) -> Report:
    """Quick: our strategy and hash on Q3's join; full: all strategies, also on Band and Linear Road."""
    full = size == "full"
    names = list(STRATEGIES) if full else [OURS, "hash"]
    cases = [orders(1.5), band(0.05), roads(50_000)] if full else [orders(0.4)]
    rows: list[Row] = []
    goals: list[Goal] = []
    with place() as where:
        measure(where, orders(0.1), RebalanceConfig(UNITS, "hash", min_tuples=100))  # so that the broker is warm
        for case in cases:
            peer = with_duckdb(case)
            results: dict[str, Joined] = {}
            lone_units: dict[str, Joined] = {}
            for name in names:
                results[name] = measure(where, case, RebalanceConfig(UNITS, name, min_tuples=100))
                if full and case.name == "Band" and name in (OURS, "jb", "jb6"):
                    control = RebalanceConfig(UNITS, name, min_tuples=100)
                    lone_units[name] = measure(where, case, control, turn=1, tasks=UNITS)
                rows.append(_row(case, name, results[name], lone_units.get(name)))
                print(rows[-1], file=sys.stderr, flush=True)
                if results[name].pairs != peer.pairs:
                    raise RuntimeError(f"{case.name}, {name}: {results[name].pairs:,} pairs, DuckDB: {peer.pairs:,}")
            rows.append(_peer(case, "DuckDB, one thread", peer))
            same_work = with_duckdb_on_topics(where, case)
            if same_work.pairs != peer.pairs:
                raise RuntimeError(f"{case.name}: {same_work.pairs:,} pairs from topics, of tables {peer.pairs:,}")
            rows.append(_peer(case, "DuckDB, from Kafka to Kafka", same_work))
            goals += _goals(case, results, lone_units, peer, same_work)
        few = orders(0.02)
        spark, truth = with_pyspark(where, few), with_duckdb(few)
        if spark.pairs != truth.pairs:
            raise RuntimeError(f"Spark: {spark.pairs:,} pairs, DuckDB: {truth.pairs:,}")
        rows.append(_peer(few, "Spark's stream-stream join", spark))
        goals.append(_at_least("tuples a CPU second, Q3, beside Spark's", rows[0], spark.per_cpu, 30))
    return Report("join", size, rows, goals, _remarks(cases, few))


def _row(case: Case, name: str, joined: Joined, lone_units: Joined | None) -> Row:
    measured, stored = joined.measured, list(joined.stored.values())
    busiest = None if lone_units is None else round(1e3 / max(lone_units.measured.cpu_of_units), 1)
    return {
        "join": case.name,
        "by": name,
        "k tuples/CPU s": round(1e3 / measured.cpu, 1),
        "k tuples/s": round(measured.rate / 1e3, 1),
        TITLE: measured.cpu_parts.nanoseconds(),
        "rounds": measured.rounds,
        **({} if busiest is None else {"busiest unit, k tuples/CPU s": busiest}),
        "M pairs": round(joined.pairs / 1e6, 2),
        "sent, a tuple": round(joined.sent / case.rows, 2),
        "load, max/mean": round(max(stored) * len(stored) / sum(stored), 2),
        "moved, %": round(100 * joined.moved / max(sum(stored), 1), 1),
    }


def _peer(case: Case, name: str, peer: Peer) -> Row:
    return {
        "join": case.name, "by": name, "k tuples/CPU s": round(peer.per_cpu / 1e3, 1),
        "k tuples/s": round(peer.rate / 1e3, 1), "M pairs": round(peer.pairs / 1e6, 2),
        **({} if peer.cpu_parts is None else {TITLE: peer.cpu_parts.nanoseconds()}),
    }  # fmt: skip


def _goals(
    case: Case, results: Mapping[str, Joined], lone_units: Mapping[str, Joined], peer: Peer, same_work: Peer
) -> Iterator[Goal]:
    cpu = {name: one.measured.cpu for name, one in results.items()}
    busiest = {name: max(one.measured.cpu_of_units) for name, one in lone_units.items()}
    if case.name == "Q3":
        share = 1e6 / cpu[OURS] / peer.per_cpu
        yield Goal(
            "through the whole path, Q3, beside DuckDB in a batch", round(share, 2), "at least 0.25", share >= 0.25
        )
    if least := _SAME_WORK.get(case.name):
        share = 1e6 / cpu[OURS] / same_work.per_cpu
        title = f"through the whole path, {case.name}, beside DuckDB from Kafka to Kafka"
        yield Goal(title, round(share, 2), f"at least {least:g}", share >= least)
    for other, least in (("jb", 2.0), ("jb6", 1.0)):
        if other in cpu:
            ratio = cpu[other] / cpu[OURS]
            yield Goal(
                f"CPU of {other} beside ours, {case.name}", round(ratio, 2), f"at least {least:g}", ratio >= least
            )
    for other, least in (("jb", 4.5), ("jb6", 2.5)):
        if other in busiest:
            ratio = busiest[other] / busiest[OURS]
            title = f"busiest unit of {other} beside ours, {case.name}"
            yield Goal(title, round(ratio, 2), f"at least {least:g}", ratio >= least)


def _at_least(goal: str, row: Row, peer: float, least: float) -> Goal:
    ratio = float(row["k tuples/CPU s"]) * 1e3 / peer
    return Goal(goal, round(ratio, 1), f"at least {least:g}", ratio >= least)


def _remarks(cases: list[Case], few: Case) -> list[str]:
    row_counts = ", ".join(f"{case.name} {case.rows:,}" for case in cases)
    return [
        f"{UNITS} units, foreign keys by Zipf's law with z = {Z:g}; tuples: {row_counts}; "
        f"Spark's own join: {few.rows:,}.",
        "A tenth of the tuples goes first, until nothing is to be moved; three tenths before the clock starts.",
        f"One run each, one after the other, on {TASKS} tasks. CPU: of broker, JVM, workers and driver together; of "
        "the busiest unit, in a run with a task a unit, of its steps alone: so many tuples of the whole stream could "
        "go by a second if every unit had a core.",
        "All pairs are written to Kafka, and as many as DuckDB finds. DuckDB's are a table in memory, or read and "
        "written as ours, but at once. Spark's state is RocksDB's; its first batch is not timed. Rounds are those of "
        "the join's tasks while the clock runs.",
    ]
