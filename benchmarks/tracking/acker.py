"""The core of tuple tracking alone, on one core: acks a second, memory a root in flight, balance of the ring.

Every speed is measured once a turn, and the turns go round all cases, so that a change of the machine's mood meets all.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.report import Goal, Report, Row
from benchmarks.tracking.storm import storm
from springline.spark_jobs.streaming.tracking.acker.fold_table import FoldTable
from springline.spark_jobs.streaming.tracking.acker.table import AckTable, Layout
from springline.spark_jobs.streaming.tracking.folds import Fold, RowRanges
from springline.spark_jobs.streaming.tracking.ring import AckerRing, PaperRing

_ALONE = AckerRing.of([0])
_BUFFER = 100_000  # acks in a buffer: what a stage sends an acker in a round
_SIX = range(6)
_ROWS = 5_000
_FOLD = 2_000  # roots

Ids = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Case:
    """Something to be timed: its name, its acks a turn, and what makes one, which returns the seconds that count."""

    name: str
    acks: int
    turn: Callable[[], float]


def run(size: str) -> Report:
    """Measure speeds with 100,000 and 1 M roots in flight, memory up to 1 M (full: 10 M), the ring at six ackers."""
    turns, counts = (7, (100_000, 1_000_000, 10_000_000)) if size == "full" else (5, (100_000, 1_000_000))
    speeds = [_speed(*timed) for timed in _timed(list(_cases()), turns)]
    memory = [_memory(layout, count) for layout in ("slots", "dense") for count in counts]
    ring = [*_balance(), *_moves()]
    peer = [row for count in (100_000, 1_000_000) for row in storm(count)]
    rows = [*speeds, *memory, *ring, *peer]
    remarks = [
        f"One core; processor time; buffers of {_BUFFER:,} acks, of roots at random where nothing else is said.",
        "Memory is what the process grows by, in a process of its own for each figure; of Storm's table, its heap.",
        "Storm's table: RotatingMap of Acker.AckObject, storm-client 2.8.2, driven as Acker.execute does, ids boxed.",
    ]
    return Report("acker", size, rows, _goals(rows), remarks)


def figure(case: str, value: float, unit: str, spread: float | None = None) -> Row:
    """A row of the report."""
    return {"case": case, "figure": round(value, 4), "unit": unit, "spread": spread}


def _goals(rows: Sequence[Row]) -> list[Goal]:
    def of(case: str) -> list[float]:
        return [float(row["figure"]) for row in rows if str(row["case"]).startswith(case)]

    slots, folds = min(of("slots: acks,")), min(of("folds: "))
    by_root, balance = min(of("dense: acks by root")), max(of("circle: fullest of six"))
    memory = {"slots": max(of("slots: memory")), "dense": max(of("dense: memory")[1:])}
    moved = max(of("circle: moved"))
    return [
        Goal("slots, acks by buffer", f"{slots:.1f} M/s", "at least 20 M/s a core", slots >= 20),
        Goal("roots by fold", f"{folds:.0f} M/s", "at least 100 M/s a core", folds >= 100),
        Goal("dense, acks by root", f"{by_root:.1f} M/s", "at least 40 M/s a core", by_root >= 40),
        Goal("slots, a root in flight", f"{memory['slots']:.1f} B", "at most 24 B", memory["slots"] <= 24),
        Goal(
            "dense, a root in flight, from 1 M on", f"{memory['dense']:.2f} B", "at most 8.5 B", memory["dense"] <= 8.5
        ),
        Goal("fullest of six ackers", f"{balance:.4f} of the mean", "at most 1.01", balance <= 1.01),
        Goal("moved by an acker more or less", f"{moved:.3f}", "at most 0.2 of all roots", moved <= 0.2),
    ]


# ---- speed


def _cases() -> Iterator[Case]:
    for count in (100_000, 1_000_000):
        yield _acking("slots: acks", "slots", count)
    yield _lives(1_000_000)
    yield _acking("dense: acks by root, sorted", "dense", 1_000_000, shuffled=False)
    yield _acking("dense: acks by root", "dense", 1_000_000)
    yield _folding(2_000)
    yield _registering("slots", 1_000_000)
    yield _registering("dense", 1_000_000)


def _timed(cases: Sequence[Case], turns: int) -> Iterator[tuple[Case, list[float]]]:
    times: dict[int, list[float]] = {index: [] for index in range(len(cases))}
    for turn in range(turns + 1):  # the first compiles
        for index, case in enumerate(cases):
            seconds = case.turn()
            if turn:
                times[index].append(seconds / case.acks)
    return ((case, times[index]) for index, case in enumerate(cases))


def _speed(case: Case, times: Sequence[float]) -> Row:
    middle = statistics.median(times)
    return figure(case.name, 1e-6 / middle, "M/s", round((max(times) - min(times)) / middle, 2))


def _messages(count: int) -> Ids:
    return np.arange(count, dtype=np.uint64) << np.uint64(16)


def _full(layout: Layout, count: int) -> AckTable:
    table = AckTable(layout, 0, _ALONE)
    for first in range(0, count, _BUFFER):
        table.register_range(0, first, _BUFFER, 1, np.uint64(1 << 63), 1, 1)
    return table


def _cut(ids: Ids) -> list[Ids]:
    return np.array_split(ids, max(1, ids.size // _BUFFER))


def _acking(name: str, layout: Layout, count: int, *, shuffled: bool = True) -> Case:
    """Acks that complete nothing: what every ack but the last of a root is."""
    table, random = _full(layout, count), np.random.default_rng(1)
    ids = random.permutation(_messages(count)) if shuffled else _messages(count)
    parts, values = _cut(ids), random.integers(1, 1 << 62, _BUFFER, dtype=np.uint64)

    def turn() -> float:
        started_at = time.process_time()
        for part in parts:
            table.ack(part, 1, values, 1)
        return time.process_time() - started_at

    return Case(f"{name}, {count:,} in flight", count, turn)


def _lives(count: int) -> Case:
    """A registration and two acks a root, each in an order of its own; a completed root is followed by another."""
    random = np.random.default_rng(1)
    ids = _messages(2 * count)
    table = _full("slots", count)
    old, value = ids[:count], np.uint64(1 << 63)

    def turn() -> float:
        nonlocal old
        new = np.setdiff1d(ids, old)
        first, second = random.permutation(old), random.permutation(old)
        started_at = time.process_time()
        for part in _cut(first):
            table.ack(part, 1, np.uint64(5), 1)
        for begins, part in zip(_cut(new), _cut(second), strict=True):
            table.register(begins, 1, value, 1)
            table.ack(part, 1, value ^ np.uint64(5), 1)
        seconds = time.process_time() - started_at
        table.drain_completed()
        old = new
        return seconds

    return Case(f"slots: lives (a registration and two acks), {count:,} in flight", 3 * count, turn)


def _folding(folds: int) -> Case:
    """Folds of 2,000 roots: a registration and two acks each."""
    parts = [Fold.registration(0, RowRanges.of([offset], [_FOLD]), 6) for offset in range(folds)]

    def turn() -> float:
        table = FoldTable()
        started_at = time.process_time()
        for fold in parts:
            table.register(fold, 1)
        for value in (2, 4):
            for fold in parts:
                table.ack(fold.first, value, 1)
        assert sum(completed.root_count for completed in table.drain_completed()) == folds * _FOLD
        return time.process_time() - started_at

    return Case(f"folds: roots, by folds of {_FOLD:,}, a registration and two acks each", folds * _FOLD, turn)


def _registering(layout: Layout, count: int) -> Case:
    def turn() -> float:
        started_at = time.process_time()
        _full(layout, count)
        return time.process_time() - started_at

    return Case(f"{layout}: registrations into an empty table, to {count:,}", count, turn)


# ---- memory


def _memory(layout: Layout, count: int) -> Row:
    command = [sys.executable, "-m", "benchmarks.tracking.memory", layout, str(count)]
    measured: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figure(f"{layout}: memory a root, {count:,} in flight", measured["bytes"] / count, "B")


# ---- ring


def _balance() -> Iterator[Row]:
    circle, paper = AckerRing.of(_SIX), PaperRing(_SIX)
    for count in (100_000, 200_000, 300_000):
        numbers = np.arange(count, dtype=np.uint64)
        by_row = (numbers // np.uint64(_ROWS) << np.uint64(16)) + numbers % np.uint64(_ROWS)
        for what, ids in (("messages", _messages(count)), ("rows", by_row)):
            for name, ring in (("circle", circle), ("the paper's ring", paper)):
                root_counts = np.bincount(ring.owners_of(ids), minlength=6)
                yield figure(
                    f"{name}: fullest of six, {count:,} {what}", root_counts.max() / root_counts.mean(), "of the mean"
                )


def _moves() -> Iterator[Row]:
    ids = _messages(300_000)
    for what, ackers in (("one more than six", range(7)), ("one less than six", range(5))):
        yield figure(f"circle: moved by {what}", AckerRing.of(_SIX).share_moved(AckerRing.of(ackers)), "of all roots")
        moved = PaperRing(_SIX).owners_of(ids) != PaperRing(ackers).owners_of(ids)
        yield figure(f"the paper's ring: moved by {what}", float(moved.mean()), "of all roots")
