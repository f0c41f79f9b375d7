"""What a row costs, and what a job holds in memory, by the number of units and by the groups in its state."""

from __future__ import annotations

import sys

from benchmarks.report import Report, Row
from benchmarks.streams.broker import place
from benchmarks.streams.cpu import TITLE
from benchmarks.streams.running_job import Measured
from benchmarks.windows.job import Case, feed, measure
from benchmarks.windows.queries import ONE
from springline.spark_jobs.streaming.examples.netflow import Flows

_WARM = 0.5  # of the rows
_LONG = {"flows": ONE.replace("60 s", "1 h")}  # a window that no row closes: all its groups are in the state


def run(size: str) -> Report:
    """A job after another, each on a topic of its own."""
    million, units = (1_000_000, (1, 2, 4, 8)) if size == "full" else (100_000, (1, 2))
    cases = [Case("groups 10 thousand", "arrow", Flows(12 * million, general=True), units=each) for each in units]
    for groups in (million, 10 * million):
        flows = Flows(2 * groups + 4 * million, general=True, sips=groups // 10)
        cases.append(Case(f"groups {groups:,}", "arrow", flows, queries=_LONG))
    rows = []
    with place() as where:
        for case in cases:
            feed(where, case)
            rows.append(_row(case, measure(where, case, warm=_WARM)))
            print(rows[-1], file=sys.stderr, flush=True)
    remarks = [
        "Arrow messages of 5,000 rows of 25 fields, keys of any length and form, drawn evenly. The clock starts when "
        "half of the rows are through, so half of the groups, or more, are in the state then. Memory: the JVM and the "
        "Python workers of the job, what they share counted once; the states lie in memory besides.",
    ]
    return Report("window_scale", size, rows, [], remarks)


def _row(case: Case, measured: Measured) -> Row:
    return {
        "units": case.units,
        "groups": case.flows.sips * case.flows.types,
        "rows": case.flows.rows,
        "M rows/s": round(measured.rate / 1e6, 2),
        "ns a row": round(1e9 / measured.rate),
        TITLE: measured.cpu_parts.nanoseconds(),
        "rounds": measured.rounds,
        "state, MB": round(measured.state_bytes / 1e6),
        "memory, MB": round(measured.memory / 1e6),
    }
