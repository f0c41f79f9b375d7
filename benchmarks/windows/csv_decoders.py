"""CSV to typed columns on one core: our decoder beside polars, on the same bytes, cut into messages and rounds.

Polars reads one buffer, so what its users would do is done for it: the messages of a round are joined, the schema is
given, and only the wanted columns are asked for. In that form a row that is too short is one with nulls. The second
is the least that dead letters need: the last field of each row is read too, which is null where the row is too short,
and only there as long as that field is never empty; and the columns are brought to the form that steps take. That a
buffer with a row that does not fit must be read once more, row by row, is not measured.

Every case is measured once a turn, and the turns go round all cases, so that a change of the machine's load meets all.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.report import Goal, Report, Row
from springline.spark_jobs.streaming.examples.netflow import FIELDS, Flows, encode_table
from springline.spark_jobs.streaming.runtime.message import Message, MessageBatch
from springline.spark_jobs.streaming.sources.chunk import Column, column_of
from springline.spark_jobs.streaming.sources.format import open_format
from springline.spark_jobs.streaming.sources.layout import Layout

MANY = 5_000  # rows of a message that holds many
_CUTS = ((MANY, 40_000), (1, 40_000), (1, 1_000))  # rows of a message, and of a round
_WIDE = Layout("csv", {field.name: "float" if field.name == "timestamp" else field.type for field in FIELDS})
_WIDE_COLUMNS = ("timestamp", "sip", "type", "bytes", "packets")
_NARROW = Layout("csv", {"timestamp": "float", "sip": "text", "bytes": "int"})
Rounds = Sequence[Sequence[Message]]  # the messages of each
OURS, PLAIN, CAREFUL = "Springline", "Polars, frames alone", "Polars, short rows told, as columns"


@dataclass(frozen=True)
class Case:
    """Something to be timed."""

    rows_are: str
    in_a_message: int
    in_a_round: int
    decoder: str
    turn: Callable[[], int]


def run(size: str) -> Report:
    """Decode the same rows, wide and narrow, 5,000 and one a message (full: 400,000 rows and 15 turns)."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    rows, turns = (400_000, 15) if size == "full" else (200_000, 7)
    cases = list(_cases(rows))
    times: dict[int, list[float]] = {index: [] for index in range(len(cases))}
    for turn in range(turns + 1):  # the first compiles
        for index, case in enumerate(cases):
            started_at = time.process_time()
            decoded = case.turn()
            if turn:
                times[index].append((time.process_time() - started_at) / rows)
            assert decoded == rows, case
    table_rows = [_row(case, times[index]) for index, case in enumerate(cases)]
    remarks = [
        f"One core; processor time, the middle of {turns} turns. Wide rows: 25 fields of 150 bytes, 5 of them wanted; "
        "narrow ones: 3 fields of 30 bytes, all wanted. All rows of a round are decoded at once."
    ]
    return Report("csv_decoders", size, table_rows, list(_goals(table_rows)), remarks)


def _cases(rows: int) -> Iterator[Case]:
    for name, layout, names in (("wide", _WIDE, _WIDE_COLUMNS), ("narrow", _NARROW, tuple(_NARROW.fields))):
        flows = Flows(rows)
        table = flows.table(0, rows).select(list(layout.fields))
        lines = encode_table(table, "csv").splitlines(keepends=True)
        for size, of_round in _CUTS:
            values = [b"".join(lines[first : first + size]) for first in range(0, rows, size)]
            messages = [Message(offset, value) for offset, value in enumerate(values)]
            rounds = [messages[first : first + of_round // size] for first in range(0, len(messages), of_round // size)]
            yield Case(name, size, of_round, OURS, _ours(layout, names, rounds))
            yield Case(name, size, of_round, PLAIN, _plain(layout, names, rounds))
            yield Case(name, size, of_round, CAREFUL, _careful(layout, names, rounds))


def _row(case: Case, times: Sequence[float]) -> Row:
    middle = statistics.median(times)
    return {
        "rows": case.rows_are,
        "in_a_message": case.in_a_message,
        "in_a_round": case.in_a_round,
        "decoder": case.decoder,
        "ns_a_row": round(middle * 1e9, 1),
        "least": round(min(times) * 1e9, 1),
        "spread": round((max(times) - min(times)) / middle, 2),
    }


def _goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """That it pays to have a decoder of our own: polars, with what dead letters need, is not within 5 % of it."""
    for shape in ("wide", "narrow"):
        for size, of_round in _CUTS:
            cost = {
                row["decoder"]: float(row["ns_a_row"])
                for row in rows
                if (row["rows"], row["in_a_message"], row["in_a_round"]) == (shape, size, of_round)
            }
            ratio = cost[CAREFUL] / cost[OURS]
            yield Goal(
                f"polars beside ours, {shape} rows, {size:,} a message, {of_round:,} a round",
                round(ratio, 2),
                "at least 1.05: else the library is taken",
                ratio >= 1.05,
            )


# ---- our own


def _ours(layout: Layout, names: Sequence[str], rounds: Rounds) -> Callable[[], int]:
    batches, csv = [MessageBatch.of(messages) for messages in rounds], open_format(layout, names)

    def turn() -> int:
        return sum(chunk.rows for batch in batches for chunk in csv.chunks([batch], []))

    return turn


# ---- polars


def _schema(layout: Layout) -> dict[str, Any]:
    import polars as pl

    kinds = {"text": pl.String, "int": pl.Int64, "float": pl.Float64}
    return {name: kinds[kind] for name, kind in layout.fields.items()}


def _plain(layout: Layout, names: Sequence[str], rounds: Rounds) -> Callable[[], int]:
    import polars as pl

    schema = pl.Schema(_schema(layout))
    places = sorted(list(layout.fields).index(name) for name in names)

    def turn() -> int:
        count = 0
        for messages in rounds:
            joined = b"".join([message.value for message in messages])
            count += pl.read_csv(joined, has_header=False, columns=places, schema=schema).height
        return count

    return turn


def _careful(layout: Layout, names: Sequence[str], rounds: Rounds) -> Callable[[], int]:
    import polars as pl

    last = list(layout.fields)[-1]
    schema = pl.Schema(_schema(layout))
    places = sorted(list(layout.fields).index(name) for name in {*names, last})

    def turn() -> int:
        count = 0
        for messages in rounds:
            values: list[Any] = [message.value for message in messages]
            frame = pl.read_csv(b"".join(values), has_header=False, columns=places, schema=schema)
            assert not frame[last].null_count()
            firsts = np.cumsum([value.count(b"\n") for value in values])  # of which message a row is
            columns: dict[str, Column] = {}
            for name in names:
                array = frame[name].to_arrow()
                columns[name] = column_of(array.cast(pa.string()) if layout.fields[name] == "text" else array)
            count += int(firsts[-1])
        return count

    return turn
