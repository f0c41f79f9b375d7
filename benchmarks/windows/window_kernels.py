"""The steps of windowed statistics alone, on one core, without broker and Spark, beside what others make of the rows.

Every case is measured once a turn, and the turns go round all cases, so that a change of the machine's mood meets all.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv

from benchmarks.report import Goal, Report, Row
from benchmarks.windows.queries import ONE, PEER, hundred
from springline.persistence.model.codec import to_json_value
from springline.spark_jobs.streaming.examples.netflow import FIELDS, Flows, flows_stream
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.step import Input, Round, State
from springline.spark_jobs.streaming.windows.adhoc import AdHocPlanner, answer_from_states
from springline.spark_jobs.streaming.windows.mapper import Mapper
from springline.spark_jobs.streaming.windows.reducer import Reducer
from springline.spark_jobs.streaming.windows.registry import QueryRegistry

_KEYS = ("timestamp", "sip", "type", "bytes", "packets")
_ONE = {"flows": ONE}
_CLOCK = 1_800_000_000.0  # of rounds: no row is ahead of it


@dataclass(frozen=True)
class Case:
    """Something to be timed: its name, its rows a turn, and what is done with them."""

    name: str
    form: str
    rows: int
    turn: Callable[[], None]


def run(size: str) -> Report:
    """Measure mapper, reducer and an ad hoc query; a turn is a round (full: a unit's second at 3 M rows/s)."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    rows, turns = (1_500_000, 5) if size == "full" else (500_000, 3)
    few, many = Flows(rows), Flows(rows, sips=40_000, general=True)
    cases = [
        _mapping("mapper: 1,000 x 10 keys", few, "arrow", _ONE),
        _mapping("mapper: 1,000 x 10 keys", few, "csv", _ONE),
        _mapping("mapper: 1,000 x 10 keys", Flows(rows // 10), "json", _ONE),
        _mapping("mapper: 1,000 x 10 keys, general texts", Flows(rows, general=True), "arrow", _ONE),
        _mapping("mapper: 400,000 groups, general texts", many, "arrow", _ONE),
        _mapping("mapper: a hundred queries", few, "arrow", hundred()),
        *_peers(few),
        *_reducing(few, many),
        _asking(few),
    ]
    times: dict[int, list[float]] = {index: [] for index in range(len(cases))}
    for turn in range(turns + 1):  # the first compiles, and learns how many values keys have
        for index, case in enumerate(cases):
            started_at = time.process_time()
            case.turn()
            if turn:
                times[index].append((time.process_time() - started_at) / case.rows)
    table = [_row(case, times[index]) for index, case in enumerate(cases)]
    return Report(
        "window_kernels", size, table, _goals(table), ["One core; processor time; rows of 150 bytes, 5,000 a message."]
    )


def _row(case: Case, times: Sequence[float]) -> Row:
    middle = statistics.median(times)
    return {
        "case": case.name,
        "form": case.form,
        "ns_a_row": round(middle * 1e9, 1),
        "million_rows_a_second": round(1e-6 / middle, 2),
        "spread": round((max(times) - min(times)) / middle, 2),
    }


def _goals(rows: Sequence[Row]) -> list[Goal]:
    def cost(name: str, form: str = "arrow") -> float:
        return next(float(row["ns_a_row"]) for row in rows if row["case"] == name and row["form"] == form)

    def at_least(name: str, form: str, millions: float) -> Goal:
        rate = 1e3 / cost(name, form)
        return Goal(
            f"{name} ({form})", f"{rate:.2f} M rows/s", f"at least {millions} M rows/s a core", rate >= millions
        )

    more = cost("mapper: a hundred queries") - cost("mapper: 1,000 x 10 keys")
    milliseconds = cost("ad hoc query over 10,000 groups") / 1e6
    return [
        at_least("mapper: 1,000 x 10 keys", "arrow", 3.0),
        at_least("mapper: 1,000 x 10 keys", "csv", 2.0),
        at_least("mapper: 400,000 groups, general texts", "arrow", 1.5),
        Goal(
            "a hundred queries, more than one",
            f"{more:.0f} ns a row",
            "at most 133 ns: 20 % of 2 cores at 3.0 M",
            more <= 133,
        ),
        Goal("ad hoc query over 10,000 groups", f"{milliseconds:.1f} ms", "at most 100 ms", milliseconds <= 100),
    ]


# ---- our own


def _versions(form: str, queries: Mapping[str, str]) -> dict[str, Any]:
    return {"queries": to_json_value(_registry(form, queries))}


def _registry(form: str, queries: Mapping[str, str]) -> QueryRegistry:
    registry = QueryRegistry.of([flows_stream(form)])
    for name, sql in queries.items():
        registry = registry.register(name, sql)
    return registry


def _messages(flows: Flows, form: str) -> list[Message]:
    return [Message(offset, value) for offset, value in enumerate(flows.messages(form))]


def _map_input(versions: Any, messages: list[Message]) -> Input:
    return Input("map", 0, Round(1, 1, _CLOCK, versions), messages, {0: (0, len(messages))})


def _mapping(name: str, flows: Flows, form: str, queries: Mapping[str, str]) -> Case:
    """Rounds of the mapper over the same rows; each goes on with the state of the one before."""
    messages, versions, step = _messages(flows, form), _versions(form, queries), Mapper("flows", 2)
    state = [State()]

    def turn() -> None:
        state[0] = step(state[0], _map_input(versions, messages)).state

    return Case(name, form, flows.rows, turn)


def _reducing(few: Flows, many: Flows) -> Iterator[Case]:
    """Rounds of the reducer over one mapper's round; a row is a partial here."""
    for name, flows in (("10,000 groups", few), ("400,000 groups", many)):
        versions = _versions("arrow", _ONE)
        output = Mapper("flows", 1)(State(), _map_input(versions, _messages(flows, "arrow")))
        messages = [Message(offset, arrow_bytes(batch)) for offset, batch in enumerate(output.buffers[0])]
        step, state = Reducer("flows", "flows"), [State()]

        def turn(
            step: Reducer = step,
            state: list[State] = state,
            messages: list[Message] = messages,
            versions: Any = versions,
        ) -> None:
            step_input = Input("reduce", 0, Round(1, 1, 0.0, versions), messages, upstream_units=frozenset([0]))
            state[0] = step(state[0], step_input).state

        yield Case(f"reducer: partials of {name}", "arrow", output.counts["groups"], turn)


def _asking(flows: Flows) -> Case:
    versions = _versions("arrow", _ONE)
    output = Mapper("flows", 1)(State(), _map_input(versions, _messages(flows, "arrow")))
    messages = [Message(offset, arrow_bytes(batch)) for offset, batch in enumerate(output.buffers[0])]
    step_input = Input("reduce", 0, Round(1, 1, 0.0, versions), messages, upstream_units=frozenset([0]))
    state = Reducer("flows", "flows")(State(), step_input).state
    asker = AdHocPlanner(_registry("arrow", _ONE))

    def turn() -> None:
        answer_from_states(asker.plan("SELECT sip, count(*) AS n, avg(packets) AS p FROM flows GROUP BY sip"), [state])

    return Case("ad hoc query over 10,000 groups", "arrow", 1, turn)


# ---- others, on the same bytes


def _peers(flows: Flows) -> list[Case]:
    """Parse and group by, each as it does it best on one core: all rows at once where that is quicker."""
    import polars as pl

    arrow, csv = (list(flows.messages(form)) for form in ("arrow", "csv"))
    kinds = {"text": pl.String, "int": pl.Int64, "float": pl.Float64, "timestamp(s)": pl.Float64}
    schema = pl.Schema({field.name: kinds[field.type]() for field in FIELDS})
    places = [index for index, field in enumerate(FIELDS) if field.name in _KEYS]
    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "timestamp(s)": pa.float64()}
    database = duckdb.connect(config={"threads": 1})

    def table() -> pa.Table:
        parts = [pa.ipc.open_stream(pa.py_buffer(value)).read_all() for value in arrow]
        return pa.concat_tables(parts).select(list(_KEYS))

    def with_duckdb() -> None:
        database.register("rows", table())
        database.sql(PEER.format("rows")).to_arrow_table()

    def with_polars(frame: Any) -> None:
        frame.group_by((pl.col("timestamp") // 60).alias("w"), "sip", "type").agg(
            pl.len(), pl.col("bytes").sum(), pl.col("packets").sum()
        )

    def with_pyarrow(rows: pa.Table) -> None:
        slices = pa.compute.floor(pa.compute.divide(rows.column("timestamp"), 60.0))
        grouped = rows.append_column("w", slices).group_by(["w", "sip", "type"], use_threads=False)
        grouped.aggregate([([], "count_all"), ("bytes", "sum"), ("packets", "sum")])

    def csv_with_polars() -> None:
        for first in range(0, len(csv), 8):
            raw = b"".join(csv[first : first + 8])
            with_polars(pl.read_csv(raw, has_header=False, columns=places, schema=schema, quote_char=None))

    def csv_with_pyarrow() -> None:
        reading = pa.csv.ReadOptions(column_names=[field.name for field in FIELDS], use_threads=False)
        converting = pa.csv.ConvertOptions(
            include_columns=list(_KEYS), column_types={field.name: types[field.type] for field in FIELDS}
        )
        with_pyarrow(pa.csv.read_csv(pa.BufferReader(b"".join(csv)), reading, convert_options=converting))

    return [
        Case("DuckDB", "arrow", flows.rows, with_duckdb),
        Case("Polars", "arrow", flows.rows, lambda: with_polars(pl.from_arrow(table()))),
        Case("pyarrow", "arrow", flows.rows, lambda: with_pyarrow(table())),
        Case("Polars", "csv", flows.rows, csv_with_polars),
        Case("pyarrow", "csv", flows.rows, csv_with_pyarrow),
    ]
