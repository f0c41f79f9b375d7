"""Back-pressure on the real path: Kafka and Spark under each mode, while the capacity of one stage falls and stops.

    topic (20 MB/s) -> take -> parse -+-> count (its capacity changes)
                                      +-> keep  (the sibling branch)

The measures are those of `backpressure_simulation`, whose first stage is called spring.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.backpressure.backpressure_simulation import (
    MODES,
    OFFERED,
    REMARKS,
    Scenario,
    goals_of_default,
    measures,
)
from benchmarks.backpressure.path import SIZE, course
from benchmarks.report import Goal, Report, Row
from benchmarks.streams.broker import place
from springline.spark_jobs.streaming.backpressure.admission import DEFAULT_MODE, OFF

SCENARIOS = (
    Scenario("step", 105, lambda at: np.where((at >= 5) & (at < 85), 10e6, 25e6), ((5, 85), (85, 105))),
    Scenario("stop", 35, lambda at: np.where((at >= 5) & (at < 15), 0.0, 25e6), ((15, 35),)),
    Scenario("oscillating", 60, lambda at: 17.5e6 + 7.5e6 * np.cos(2 * np.pi * at / 20)),
    Scenario("ramp", 70, lambda at: np.interp(at, [5, 35, 65], [25e6, 10e6, 25e6])),
)
_QUICK = ("stop",)


def run(size: str) -> Report:
    """One mode after another through each scenario (quick: the recommended mode and none, through one)."""
    full = size == "full"
    rows: list[Row] = []
    with place() as where:
        for scenario in (each for each in SCENARIOS if full or each.name in _QUICK):
            for mode in MODES if full else (OFF, DEFAULT_MODE):
                measured_course = course(where, scenario, mode)
                rows.append({
                    "scenario": scenario.name, "mode": mode, **measures(scenario, measured_course.trace),
                    "messages": measured_course.sent, "lost": measured_course.lost, "doubled": measured_course.doubled,
                    "memory_mb": round(measured_course.memory / 1e6),
                })  # fmt: skip
                print(rows[-1], file=sys.stderr, flush=True)
    return Report("backpressure", size, rows, [*_nothing_lost(rows), *goals_of_default(rows)], [*_REMARKS, *REMARKS])


_REMARKS = (
    f"{OFFERED / 1e6:g} MB/s in messages of {SIZE // 1000} kB, one unit a stage; the slow stage sleeps as long as its "
    "capacity has it, and its own work comes on top: so `off` loses something too.",
    "lost, doubled: messages that did not come out, or more than once, when all was through; memory: JVM and workers.",
)


def _nothing_lost(rows: Sequence[Row]) -> Iterator[Goal]:
    wrong = sum(row["lost"] + row["doubled"] for row in rows)
    yield Goal("messages lost or doubled, all modes", wrong, "0", wrong == 0)
