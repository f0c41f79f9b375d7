"""Windowed statistics from Kafka to Kafka on two cores, broker included, beside what others make of the same rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from benchmarks.report import Goal, Report
from benchmarks.streams.broker import Place, place
from benchmarks.windows.job import SIZE, Case, feed, forget, measure
from benchmarks.windows.peers import with_duckdb, with_polars, with_pyflink, with_pyspark
from benchmarks.windows.queries import hundred
from springline.spark_jobs.streaming.examples.netflow import Flows

Side = tuple[str, str, int]  # its name, the form of its rows, and how many a message has
_DUCKDB, _SPARK = ("DuckDB, the bytes in memory", "csv", SIZE), ("PySpark, its Kafka source", "csv", SIZE)
_FLINK, _FLINK_LINES = ("PyFlink, its Kafka source", "csv", 1), ("PyFlink, its Kafka source", "csv", SIZE)
_SINGLE = ("csv", "json", "avro", "protobuf")  # also measured with one row a message
_SLOW = {_SPARK, _FLINK, _FLINK_LINES}  # measured once


def run(size: str) -> Report:
    """Each side in turn, so that a change of the machine's mood meets all; sizes of messages, once each, after them."""
    rows, warm, turns = (8_000_000, 8_000_000, 3) if size == "full" else (1_600_000, 1_600_000, 1)
    plain, texts = Flows(warm + rows), Flows(warm + rows, general=True)
    cases = [
        Case("keys", "arrow", plain),
        Case("keys", "csv", plain),
        Case("texts", "arrow", texts),
        Case("groups", "arrow", replace(texts, sips=40_000)),
        Case("a hundred queries", "arrow", plain, queries=hundred(), content="keys"),
    ]
    sizes = _sizes(plain) if size == "full" else []
    fewer = [Case("fewer", "csv", Flows(rows // 4), 1), Case("fewer", "csv", Flows(rows // 2))]  # for slow peers
    rates_by_side: dict[Side, list[float]] = {}

    def note(side: Side, rate: float) -> None:
        rates_by_side.setdefault(side, []).append(rate)
        print(f"{', '.join(map(str, side))}: {rate / 1e6:.3f} M rows/s", file=sys.stderr, flush=True)

    with place() as where:
        topics = {case.topic: case for case in [*cases, *fewer]}.values()
        for case in topics:
            feed(where, case)
        sides = _sides(where, cases, fewer, rows, warm / (warm + rows))
        for turn in range(turns):
            for side, measured in sides.items():
                if not turn or side not in _SLOW:
                    note(side, measured(turn))
        for case in topics:
            forget(where, case)
        for case in sizes:
            feed(where, case)
            note(_ours(case), measure(where, case, warm=warm / (warm + rows)).rate)
            forget(where, case)
    table = [
        {"side": name, "form": form, "rows a message": per, "M rows/s": round(median(rates) / 1e6, 3),
         "least": round(min(rates) / 1e6, 3), "most": round(max(rates) / 1e6, 3)}
        for (name, form, per), rates in rates_by_side.items()
    ]  # fmt: skip
    return Report(
        "windows",
        size,
        table,
        _goals({side: median(rates) for side, rates in rates_by_side.items()}),
        _remarks(rows, warm, turns),
    )


def _sizes(plain: Flows) -> list[Case]:
    """The same rows in messages of other sizes; fewer rows where each costs more."""
    shares = {10: 16, 100: 4, 1_000: 2, 50_000: 2}
    cases = [Case("keys", "arrow", replace(plain, rows=plain.rows // share), each) for each, share in shares.items()]
    return cases + [Case("keys", form, replace(plain, rows=plain.rows // 4), 1) for form in _SINGLE]


def _sides(
    where: Place, cases: list[Case], fewer: list[Case], rows: int, warm: float
) -> dict[Side, Callable[[int], float]]:
    """What is measured, by name; each gives rows a second in a turn."""
    content = b"".join(Flows(rows).messages("csv", size=SIZE))

    def ours(case: Case) -> Callable[[int], float]:
        return lambda turn: measure(where, case, warm=warm, turn=turn).rate

    return {
        **{_ours(case): ours(case) for case in cases},
        _DUCKDB: lambda turn: with_duckdb(content, rows),
        ("Polars, the bytes in memory", "csv", SIZE): lambda turn: with_polars(content, rows),
        _SPARK: lambda turn: with_pyspark(where, fewer[1], turn),
        _FLINK: lambda turn: with_pyflink(where, fewer[0]),
        _FLINK_LINES: lambda turn: with_pyflink(where, fewer[1]),
    }


def _ours(case: Case) -> Side:
    return (f"Springline, {case.name}", case.form, case.size)


def _goals(rate_of: dict[Side, float]) -> list[Goal]:
    arrow, csv = rate_of["Springline, keys", "arrow", SIZE], rate_of["Springline, keys", "csv", SIZE]
    texts, groups = rate_of["Springline, texts", "arrow", SIZE], rate_of["Springline, groups", "arrow", SIZE]
    hundred_queries = rate_of["Springline, a hundred queries", "arrow", SIZE]
    single = {form: rate_of.get(("Springline, keys", form, 1), 0.0) for form in _SINGLE}
    goals = [
        _at_least("CSV, one row a message, M rows/s", single["csv"] / 1e6, 2.0),
        _at_least("CSV, one row a message, against PyFlink", single["csv"] / rate_of[_FLINK], 6.0),
        _at_least("JSON, one row a message, M rows/s", single["json"] / 1e6, 1.5),
        _at_least("Avro, one row a message, M rows/s", single["avro"] / 1e6, 2.0),
        _at_least("Protobuf, one row a message, M rows/s", single["protobuf"] / 1e6, 1.5),
    ]
    return [
        *(goals if all(single.values()) else []),  # the quick size does not measure them
        _at_least("Arrow, M rows/s", arrow / 1e6, 3.0),
        _at_least("CSV, M rows/s", csv / 1e6, 2.2),
        _at_least("Arrow against DuckDB's batch rate", arrow / rate_of[_DUCKDB], 0.75),
        _at_least("CSV against PySpark", csv / rate_of[_SPARK], 8.0),
        _at_least("CSV against PyFlink at its best", csv / max(rate_of[_FLINK], rate_of[_FLINK_LINES]), 25.0),
        _at_least("general texts as keys, Arrow, M rows/s", texts / 1e6, 3.0),
        _at_least("400,000 groups against 10,000", groups / texts, 0.5),
        _at_least("a hundred queries against one", hundred_queries / arrow, 0.8),
    ]


def _at_least(goal: str, measured: float, least: float) -> Goal:
    return Goal(goal, round(measured, 2), f"at least {least:g}", measured >= least)


def _remarks(rows: int, warm: int, turns: int) -> list[str]:
    return [
        f"{rows:,} rows of 25 fields (150 bytes of CSV, 90 of Arrow), 1,000 x 10 keys a minute unless said otherwise. "
        f"The middle of {turns} turns, with the least and the most; PySpark and PyFlink take part in the first alone.",
        f"Springline: two units and two reducers on the cores that the broker has too. {warm:,} rows warm it up; then "
        "until every reducer has taken the last partial. The rows lie in Kafka before, and its log in memory. `texts` "
        "are keys of any length and form, `groups` 400,000 of them. Other sizes of messages are measured once; with "
        "few rows a message there are fewer rows.",
        "DuckDB and Polars read CSV from memory with two threads, and group: no broker, no state, nothing to recover. "
        f"PySpark, over {rows // 2:,} rows: its Kafka source, `from_csv`, windows in RocksDB, results to Kafka; its "
        "first batch is left out.",
        f"PyFlink, over {rows // 4:,} rows or {rows // 2:,}: SQL with parallelism 2 and mini-batches; what two runs of "
        "different length differ in, so that its start is left out. Its CSV format reads one row a message: event-time "
        "windows, results to Kafka. Many rows a message are split in SQL and grouped by minute without windows, and "
        "the results thrown away.",
    ]
