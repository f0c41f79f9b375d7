"""One router and one task of a join on one core, without broker and Spark: what a tuple costs, also as the state grows.

The step and the writing of its state into memory are timed. Each tuple is stored and probed with, and finds a partner.
An equality uses the hash index, a band of one key the sorted runs. Of the router, its step and the encoding of what it
sends are timed.
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
from springline.spark_jobs.streaming.join.router import TABLE, RelationSource, Router
from springline.spark_jobs.streaming.join.routing.strategies import strategy_of
from springline.spark_jobs.streaming.join.task.candidates import CandidateCursor
from springline.spark_jobs.streaming.join.task.task import JoinTask
from springline.spark_jobs.streaming.join.wire import Action, EpochCommands, JoinSide, RoutedBatch, first_seq
from springline.spark_jobs.streaming.runtime.encoding import arrow_bytes, encode_buffers
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, StateStore
from springline.spark_jobs.streaming.runtime.step import EndedRound, Input, Round, State

ROUND = 50_000  # tuples, half of them left
EQUALITY, _BAND = "l.k = r.k", "abs(l.k - r.k) <= 1"


def run(size: str) -> Report:
    """Quick: up to 3 M stored tuples; full: 30 M."""
    steps = [1, 3, 10, 30] if size == "full" else [1, 3]
    equality, band = (list(_growth(on, steps)) for on in (EQUALITY, _BAND))
    routed = list(_routing())
    rows = [*equality, *band, *routed]
    rise = band[-1]["us a tuple"] / band[0]["us a tuple"]
    logarithms = float(np.log2(band[-1]["M stored"] * 1e6) / np.log2(band[0]["M stored"] * 1e6))
    ratio, nanoseconds = round(rise / logarithms, 2), equality[-1]["index, ns a tuple"]
    goals = [
        Goal("hash index, probe and insert, ns a tuple", nanoseconds, "at most 100", nanoseconds <= 100),
        Goal("router, ns a tuple", routed[-1]["ns a tuple"], "at most 100", routed[-1]["ns a tuple"] <= 100),
        Goal("sorted runs: rise of a tuple's cost beside that of the logarithm", ratio, "at most 1.5", ratio <= 1.5),
    ]
    remarks = [
        f"Rounds of {ROUND:,} tuples, half of them left; keys are drawn evenly, as many as there are tuples.",
        "CPU time of this process; of the index: to insert a tuple, and to find the places of its candidates.",
    ]
    return Report("join_unit", size, rows, goals, remarks)


def _routing() -> Iterator[Row]:
    """Rounds of a router: 6 messages of 8 columns, of which 3 are needed; one filter, equality, 24 units on 2 tasks."""
    names = "abcdefgh"
    left, right = (Relation(alias, dict.fromkeys(names, "int")) for alias in "lr")
    condition = Condition.of(left, right, "l.a = r.a AND l.b < 900", ["l.c", "r.d"])
    sources = [RelationSource(relation.alias, relation, "arrow") for relation in (left, right)]
    table = strategy_of("hash").first(24, 24).as_json()
    stage = Stage("route", "", "", job="j", downstream="j.tasks", outlets={"j.tasks": 2})
    random = np.random.default_rng(1)
    for rows in (1_250, 5_000):
        batches = [pa.record_batch({name: random.integers(0, 1_000, rows) for name in names}) for _ in range(6)]
        messages = [Message(number, arrow_bytes(batch)) for number, batch in enumerate(batches)]
        router, state, times = Router(sources[0], sources[1], 24, 2, condition), State(), []
        for number in range(1, 51):
            started_at = time.process_time()
            this = Round(1, number, float(number), {TABLE: table})
            output = router(state, Input("route", 0, this, messages, {0: (0, 6)}))
            for _ in encode_buffers(stage, 0, (1, number), output):
                pass
            times.append(time.process_time() - started_at)
            state = output.state
        seconds = float(np.median(times[5:]))
        yield {
            "join": f"router, {6 * rows:,} rows a round", "us a tuple": round(1e6 * seconds / rows / 6, 3),
            "ns a tuple": round(1e9 * seconds / rows / 6), "worst round, ms": round(1e3 * max(times[5:]), 1),
        }  # fmt: skip


class LoneTask:
    """A task of one unit with its state in memory; rounds are made and run one after the other."""

    def __init__(self, folder: Path, keys: int, on: str = EQUALITY) -> None:
        left, right = (Relation(alias, {"k": "int", "v": "int"}) for alias in "lr")
        self.condition = Condition.of(left, right, on, ["l.k", "l.v", "r.v AS w"])
        self.step = JoinTask("j", self.condition.as_json(), "j.copies", 2, 1)
        self.versions = StateStore(folder)
        self.before = StateSnapshot(1, 0)
        self.keys = keys
        self.random = np.random.default_rng(1)
        self.number = 0
        self.copies: list[bytes] = []

    def round(self, rows: int, orders: EpochCommands | None = None, act: Action = Action.BOTH) -> float:
        """CPU seconds that a round of so many tuples takes."""
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
            units, actions = (np.full(rows // 2, value, np.uint8) for value in (0, act))
            columns = [*map(pa.array, (keys, seqs, units, actions)), *self.condition.carried(side, batch)]
            tuples = pa.RecordBatch.from_arrays(columns, schema=self.condition.routed_schema(side))
            messages.append(Message(0, arrow_bytes(RoutedBatch(self.number, tuples, side).to_batch())))
        step_input = Input(
            "join", 0, Round(1, self.number, float(self.number)), messages,
            ended_rounds=[EndedRound(0, self.number)], upstream_units=frozenset([0]), read_topic=self._copied,
        )  # fmt: skip
        started_at = time.process_time()
        output = self.step(self.before.state, step_input)
        self.before = self.versions.save(self.before, output.state, (1, self.number), {})
        seconds = time.process_time() - started_at
        self.copies += [arrow_bytes(batch) for batch in output.feedback]
        self.versions.prune((), before=(1, self.number - 2))
        return seconds

    def _copied(self, topic: str, unit: int, start: int, to: int) -> Iterator[Message]:
        return (Message(at, self.copies[at]) for at in range(start, to))


def _growth(on: str, steps: Sequence[int]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        unit = LoneTask(Path(folder), steps[-1] * 1_000_000, on)
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
            index_bytes = sum(store.index.bytes for store in unit.step.stores_of(0).values())
            yield {
                "join": "equality" if on == EQUALITY else "band", "M stored": round(stored / 1e6, 2),
                "us a tuple": round(1e6 * float(np.median(times)) / ROUND, 3),
                "mean": round(1e6 * float(np.mean(times)) / ROUND, 3), "worst round, ms": round(1e3 * max(times), 1),
                "index, ns a tuple": round(_index_nanoseconds(unit)),
                "files": sum(runs), "bytes a tuple": round(size / stored, 1),
                "index, bytes a tuple": round(index_bytes / stored, 1),
            }  # fmt: skip


def _index_nanoseconds(task: LoneTask) -> float:
    """CPU time a tuple, in the index alone: its place is inserted, and the places of its candidates are sought."""
    times = []
    for _ in range(20):
        keys = task.random.integers(0, task.keys, ROUND // 2)
        for store in task.step.stores_of(0).values():
            probes = np.sort(keys) if store.index.needs_sorted_probes else keys
            started_at = time.process_time()
            for _ in store.index.candidates(probes, CandidateCursor(), 1 << 16):
                pass
            store.index.append(keys, store.end - store.origin)
            store.index.settle()
            times.append(time.process_time() - started_at)
            store.index.remove(keys, np.arange(keys.size) + store.end - store.origin)
    return 1e9 * float(np.median(times)) / (ROUND // 2)
