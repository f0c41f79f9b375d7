"""A consumer that stops for ten minutes, on Kafka and Spark: what waits before each stage, and memory."""

from __future__ import annotations

import numpy as np

from benchmarks.backpressure.backpressure_simulation import STAGES, Scenario
from benchmarks.backpressure.path import course
from benchmarks.report import Goal, Report, Row
from benchmarks.streams.broker import place
from springline.spark_jobs.streaming.backpressure.admission import DEFAULT_MODE

_OFFERED = 5e6  # bytes a second
_BEFORE, _AFTER = 10.0, 30.0  # seconds
_MOST_WAITING = 8.0  # MB before a stage, as before one of which nothing is known
_MOST_MEMORY = 4.0  # GB of JVM and workers


def run(size: str) -> Report:
    """The slow stage stands still for ten minutes (quick: one), under the recommended mode."""
    stop_seconds = 600.0 if size == "full" else 60.0
    scenario = Scenario(
        "long stop",
        _BEFORE + stop_seconds + _AFTER,
        lambda at: np.where((at >= _BEFORE) & (at < _BEFORE + stop_seconds), 0.0, 25e6),
    )
    with place() as where:
        measured_course = course(where, scenario, DEFAULT_MODE, offered=_OFFERED)
    waiting = {stage: round(max(measured_course.trace.waiting[stage]) / 1e6, 1) for stage in STAGES[1:]}
    most, memory, wrong = (
        max(waiting.values()),
        round(measured_course.memory / 1e9, 2),
        measured_course.lost + measured_course.doubled,
    )
    row: Row = {
        **{f"before_{stage}_mb": many for stage, many in waiting.items()}, "memory_gb": memory,
        "messages": measured_course.sent, "lost": measured_course.lost, "doubled": measured_course.doubled,
    }  # fmt: skip
    goals = [
        Goal("bytes that wait before a stage at most, MB", most, f"at most {_MOST_WAITING:g}", most <= _MOST_WAITING),
        Goal("memory of JVM and workers at most, GB", memory, f"at most {_MOST_MEMORY:g}", memory <= _MOST_MEMORY),
        Goal("messages lost or doubled", wrong, "0", wrong == 0),
    ]  # fmt: skip
    return Report("backpressure_stop", size, [row], goals, [_REMARK.format(stop_seconds=stop_seconds)])


_REMARK = (
    f"{_OFFERED / 1e6:g} MB/s into the first topic; the stage `count` stands still for {{stop_seconds:g}} s. By stage: "
    "the most bytes that waited before it, in its topic; what the first one does not admit waits in the topic it reads."
)
