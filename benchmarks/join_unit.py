"""One unit of a join on one core, without broker and Spark: what a tuple costs as the state grows, what a piece costs.

The step and the writing of its state into memory are timed. Each tuple is stored and probed with, and finds a partner.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.report import Goal, Report, Row
from spark_jobs.streaming.join.condition import Condition
from spark_jobs.streaming.join.forms import GREATEST, LEAST, Act, Orders, Piece, Sent, Side, Switch, first_seq
from spark_jobs.streaming.join.predicate import Relation
from spark_jobs.streaming.join.routing.controller import Control
from spark_jobs.streaming.join.unit import JoinUnit
from spark_jobs.streaming.unitlog.letters import arrow_bytes
from spark_jobs.streaming.unitlog.step import Ended, Input, Message, Round
from spark_jobs.streaming.unitlog.versions import Version, Versions

_ROUND = 50_000  # tuples, half of them left
_BUCKETS = 4096


def run(size: str) -> Report:
    """Quick: up to 3 M stored tuples, and a state of 100 MB; full: 30 M, and 1 GB."""
    full = size == "full"
    rows = list(_growth([1, 3, 10, 30] if full else [1, 3]))
    found = _moving(25_000_000 if full else 2_500_000)
    first, last = rows[0], rows[-1]
    rise = float(last["us a tuple"]) / float(first["us a tuple"])
    log = float(np.log2(float(last["M stored"]) * 1e6) / np.log2(float(first["M stored"]) * 1e6))
    goals = [
        Goal("cost of a tuple, the last beside the first, against the logarithms'", round(rise / log, 2), "at most 1.5",
             rise / log <= 1.5),
        Goal("p99 of a giver's rounds beyond a normal one, ms", found["p99 beyond, ms"], "at most 200",
             found["p99 beyond, ms"] <= 200),
    ]  # fmt: skip
    remarks = [f"Rounds of {_ROUND:,} tuples, half of them left; keys are drawn evenly, as many as there are tuples."]
    return Report("join_unit", size, rows, goals, remarks, [found])


class _Unit:
    """A unit with its state in memory; rounds are made and run one after the other."""

    def __init__(self, folder: Path, keys: int) -> None:
        left, right = (Relation(alias, {"k": "int", "v": "int"}) for alias in "lr")
        self.condition = Condition.of(left, right, "l.k = r.k", ["l.k", "l.v", "r.v AS w"])
        self.step = JoinUnit("j", self.condition.as_json(), 1, "j.copies")
        self.versions = Versions(folder)
        self.before = Version(1, 0)
        self.keys = keys
        self.random = np.random.default_rng(1)
        self.number = 0
        self.copies: list[bytes] = []

    def round(self, rows: int, orders: Orders | None = None, act: Act = Act.BOTH) -> float:
        """Seconds that a round of so many tuples takes."""
        self.number += 1
        messages = []
        if orders is not None:
            messages.append(Message(0, arrow_bytes(Sent(self.number, pa.record_batch({}), orders=orders).batch())))
        for side in Side:
            seqs = first_seq(self.number, 0) + side + 2 * np.arange(rows // 2)
            keys = self.random.integers(0, self.keys, rows // 2)
            batch = pa.record_batch({"k": keys, "v": np.arange(rows // 2)})
            tuples = self.condition.tuples(side, keys, seqs, batch)
            messages.append(Message(0, arrow_bytes(Sent(self.number, tuples, side, act).batch())))
        given = Input(
            "join", 0, Round(1, self.number, float(self.number)), messages, ended=[Ended(0, self.number, 0, 0)],
            source=self._copied,
        )  # fmt: skip
        begun = time.monotonic()
        output = self.step(self.before.state, given)
        self.before = self.versions.save(self.before, output.state, (1, self.number), {})
        taken = time.monotonic() - begun
        self.copies += [arrow_bytes(batch) for batch in output.tells]
        self.versions.prune((), before=(1, self.number - 2))
        return taken

    def _copied(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        return (Message(at, self.copies[at]) for at in range(start, to))


def _growth(steps: Sequence[int]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        unit = _Unit(Path(folder), steps[-1] * 1_000_000)
        unit.round(_ROUND)
        stored = _ROUND
        for step in steps:
            while stored < step * 1_000_000 - 20 * _ROUND:
                stored += 20 * _ROUND
                unit.round(20 * _ROUND, act=Act.STORE)
            times = [unit.round(_ROUND) for _ in range(20)]
            stored += 20 * _ROUND
            runs = [len(batches) for name, batches in unit.before.state.runs.items() if name in ("left", "right")]
            size = sum(batch.nbytes for name in ("left", "right") for batch in unit.before.state.runs[name])
            yield {
                "M stored": round(stored / 1e6, 2), "us a tuple": round(1e6 * float(np.median(times)) / _ROUND, 3),
                "worst round, ms": round(1e3 * max(times), 1), "runs": sum(runs),
                "bytes a tuple": round(size / stored, 1),
            }  # fmt: skip


def _moving(tuples: int) -> Row:
    """A quarter of the buckets leaves, in pieces as the controller cuts them; then the same state is stopped, and read
    again by another layout, which is what a restart would take.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        unit = _Unit(Path(folder), tuples)
        for _ in range(tuples // (20 * _ROUND)):
            unit.round(20 * _ROUND, act=Act.STORE)
        normal = [unit.round(_ROUND) for _ in range(20)]
        moving, epoch = [], 1
        for pieces in _flights(tuples):
            at = len(unit.copies)
            epoch += 1
            moving.append(unit.round(_ROUND, Orders(epoch, pieces)))
            epoch += 1
            switches = [Switch(piece, at, len(unit.copies)) for piece in pieces]
            moving.append(unit.round(_ROUND, Orders(epoch, (), switches)))
            moving += [unit.round(_ROUND) for _ in range(2)]
        begun = time.monotonic()
        unit.versions.load(1, unit.number)
        size = sum(batch.nbytes for name in ("left", "right") for batch in unit.before.state.runs[name])
        usual = float(np.median(normal))
        return {
            "MB left": round(size / 1e6), "rounds": len(moving), "normal round, ms": round(1e3 * usual, 1),
            "p99 beyond, ms": round(1e3 * (float(np.quantile(moving, 0.99)) - usual), 1),
            "worst beyond, ms": round(1e3 * (max(moving) - usual), 1),
            "moved, MB": round(sum(map(len, unit.copies)) / 1e6), "read again, ms": round(1e3 * (time.monotonic() - begun)),
        }  # fmt: skip


def _flights(tuples: int) -> Iterator[list[Piece]]:
    """The pieces of a quarter of the buckets of both sides, by flights as the controller lets them go."""
    control = Control(2)
    each = tuples // 2 // _BUCKETS
    group = max(control.piece // each, 1)
    pieces = [
        Piece(0, side, 0, 1, (LEAST, GREATEST), buckets=tuple(range(first, min(first + group, _BUCKETS // 4))))
        for side in Side
        for first in range(0, _BUCKETS // 4, group)
    ]
    pieces = [replace(piece, id=number + 1) for number, piece in enumerate(pieces)]
    many = max(control.flight // control.piece, 1)
    for first in range(0, len(pieces), many):
        yield pieces[first : first + many]
