"""What a task of a join has to do when a quarter of a large state leaves it, round by round, on one core.

The pieces are those that the controller cuts and lets go at a time; the giver copies, and drops at the switch. Beside
it: what stopping it and reading its state again takes, which is what another layout by a restart would begin with.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.join.join_unit import ROUND, LoneTask
from benchmarks.report import Goal, Report
from springline.spark_jobs.streaming.join.buckets import BUCKETS
from springline.spark_jobs.streaming.join.routing.controller import RebalanceConfig
from springline.spark_jobs.streaming.join.wire import (
    GREATEST,
    LEAST,
    Action,
    Cutover,
    EpochCommands,
    JoinSide,
    StateMigration,
)


def run(size: str) -> Report:
    """Quick: of 100 MB; full: of 1 GB."""
    row = _moving(32_000_000 if size == "full" else 3_200_000)
    beyond = float(row["p99 beyond, ms"])
    goals = [Goal("p99 of the giver's rounds beyond a normal one, ms", beyond, "at most 100", beyond <= 100)]
    remarks = [
        f"Rounds of {ROUND:,} tuples, half of them left, each stored and probed with. A quarter of all buckets leaves.",
        "The step and the writing of its state in memory are timed; Kafka, where copies go, is not in it.",
    ]
    return Report("join_moves", size, [row], goals, remarks)


def _moving(tuples: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        unit = LoneTask(Path(folder), tuples)
        for _ in range(tuples // (20 * ROUND)):
            unit.round(20 * ROUND, act=Action.STORE)
        normal = [unit.round(ROUND) for _ in range(20)]
        moving, epoch = [], 1
        for pieces in _flights(tuples):
            at = len(unit.copies)
            epoch += 1
            moving.append(unit.round(ROUND, EpochCommands(epoch, tuple(pieces))))
            epoch += 1
            switches = tuple(Cutover(piece, at, len(unit.copies)) for piece in pieces)
            moving.append(unit.round(ROUND, EpochCommands(epoch, (), switches)))
            moving += [unit.round(ROUND) for _ in range(2)]
        started_at = time.monotonic()
        unit.versions.load(1, unit.number)
        reading_seconds = time.monotonic() - started_at
        size = sum(batch.nbytes for name in ("left", "right") for batch in unit.before.state.runs[name])
        usual = float(np.median(normal))
        return {
            "MB left": round(size / 1e6), "rounds": len(moving), "normal round, ms": round(1e3 * usual, 1),
            "p99 beyond, ms": round(1e3 * (float(np.quantile(moving, 0.99)) - usual), 1),
            "worst beyond, ms": round(1e3 * (max(moving) - usual), 1),
            "moved, MB": round(sum(map(len, unit.copies)) / 1e6), "read again, ms": round(1e3 * reading_seconds),
        }  # fmt: skip


def _flights(tuples: int) -> Iterator[list[StateMigration]]:
    """The pieces of a quarter of the buckets of both sides, by flights as the controller lets them go."""
    control = RebalanceConfig(2)
    each = tuples // 2 // BUCKETS
    group = max(control.migration_tuples // each, 1)
    pieces = [
        StateMigration(0, side, 0, 1, (LEAST, GREATEST), buckets=tuple(range(first, min(first + group, BUCKETS // 4))))
        for side in JoinSide
        for first in range(0, BUCKETS // 4, group)
    ]
    pieces = [replace(piece, id=number + 1) for number, piece in enumerate(pieces)]
    many = max(control.in_flight_tuples // control.migration_tuples, 1)
    for first in range(0, len(pieces), many):
        yield pieces[first : first + many]
