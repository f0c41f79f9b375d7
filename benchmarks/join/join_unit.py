"""One unit of a join on one core, without broker and Spark: what a tuple costs as the state grows.

The step and the writing of its state into memory are timed. Each tuple is stored and probed with, and finds a partner.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.report import Goal, Report, Row
from springline.spark_jobs.streaming.join.condition.condition import Condition
from springline.spark_jobs.streaming.join.condition.predicate import Relation
from springline.spark_jobs.streaming.join.unit.unit import JoinUnit
from springline.spark_jobs.streaming.join.wire import Action, EpochCommands, JoinSide, RoutedBatch, first_seq
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, StateStore
from springline.spark_jobs.streaming.runtime.step import EndedRound, Input, Message, Round

ROUND = 50_000  # tuples, half of them left


def run(size: str) -> Report:
    """Quick: up to 3 M stored tuples; full: 30 M."""
    rows = list(_growth([1, 3, 10, 30] if size == "full" else [1, 3]))
    first, last = rows[0], rows[-1]
    rise = last["us a tuple"] / first["us a tuple"]
    logarithms = float(np.log2(last["M stored"] * 1e6) / np.log2(first["M stored"] * 1e6))
    ratio = round(rise / logarithms, 2)
    goals = [Goal("rise of a tuple's cost beside that of the logarithm", ratio, "at most 1.5", ratio <= 1.5)]
    remarks = [f"Rounds of {ROUND:,} tuples, half of them left; keys are drawn evenly, as many as there are tuples."]
    return Report("join_unit", size, rows, goals, remarks)


class LoneUnit:
    """A unit with its state in memory; rounds are made and run one after the other."""

    def __init__(self, folder: Path, keys: int) -> None:
        left, right = (Relation(alias, {"k": "int", "v": "int"}) for alias in "lr")
        self.condition = Condition.of(left, right, "l.k = r.k", ["l.k", "l.v", "r.v AS w"])
        self.step = JoinUnit("j", self.condition.as_json(), "j.copies")
        self.versions = StateStore(folder)
        self.before = StateSnapshot(1, 0)
        self.keys = keys
        self.random = np.random.default_rng(1)
        self.number = 0
        self.copies: list[bytes] = []

    def round(self, rows: int, orders: EpochCommands | None = None, act: Action = Action.BOTH) -> float:
        """Seconds that a round of so many tuples takes."""
        self.number += 1
        messages = []
        if orders is not None:
            messages.append(
                Message(0, arrow_bytes(RoutedBatch(self.number, pa.record_batch({}), commands=orders).to_batch()))
            )
        for side in JoinSide:
            seqs = first_seq(self.number, 0) + side + 2 * np.arange(rows // 2)
            keys = self.random.integers(0, self.keys, rows // 2)
            batch = pa.record_batch({"k": keys, "v": np.arange(rows // 2)})
            tuples = self.condition.tuples(side, keys, seqs, batch)
            messages.append(Message(0, arrow_bytes(RoutedBatch(self.number, tuples, side, act).to_batch())))
        step_input = Input(
            "join", 0, Round(1, self.number, float(self.number)), messages,
            ended_rounds=[EndedRound(0, self.number, 0, 0, units=1)], read_topic=self._copied,
        )  # fmt: skip
        started_at = time.monotonic()
        output = self.step(self.before.state, step_input)
        self.before = self.versions.save(self.before, output.state, (1, self.number), {})
        seconds = time.monotonic() - started_at
        self.copies += [arrow_bytes(batch) for batch in output.feedback]
        self.versions.prune((), before=(1, self.number - 2))
        return seconds

    def _copied(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        return (Message(at, self.copies[at]) for at in range(start, to))


def _growth(steps: Sequence[int]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        unit = LoneUnit(Path(folder), steps[-1] * 1_000_000)
        unit.round(ROUND)
        stored = ROUND
        for step in steps:
            while stored < step * 1_000_000 - 20 * ROUND:
                stored += 20 * ROUND
                unit.round(20 * ROUND, act=Action.STORE)
            times = [unit.round(ROUND) for _ in range(20)]
            stored += 20 * ROUND
            runs = [len(batches) for name, batches in unit.before.state.runs.items() if name in ("left", "right")]
            size = sum(batch.nbytes for name in ("left", "right") for batch in unit.before.state.runs[name])
            yield {
                "M stored": round(stored / 1e6, 2), "us a tuple": round(1e6 * float(np.median(times)) / ROUND, 3),
                "mean": round(1e6 * float(np.mean(times)) / ROUND, 3), "worst round, ms": round(1e3 * max(times), 1),
                "runs": sum(runs), "bytes a tuple": round(size / stored, 1),
            }  # fmt: skip
