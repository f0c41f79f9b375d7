"""A job that hands messages on through stages of which one can be slowed down while it runs.

    topic -> take -> parse -+-> count   as slow as a file says, emits the number of each message
                            +-> keep    the sibling branch

`python -m benchmarks.backpressure.relay_job NAME MODE TOPIC FILE` is its application; `… FILE two` is one of two, which
starts that of `count` and `keep` as `… FILE two --second-application`.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from springline.spark_jobs.streaming.backpressure.config import DEFAULT_CONFIG, BackpressureConfig
from springline.spark_jobs.streaming.job import BaseJob
from springline.spark_jobs.streaming.job_folder import HOLD, STOP
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.stage import StageSpec
from springline.spark_jobs.streaming.runtime.step import Input, Output, State, Step
from springline.spark_jobs.streaming.settings import StreamSettings

_STEPS = "benchmarks.backpressure.relay_job"
_DIGITS = 12  # with which a message begins
_TURN = 0.02  # seconds after which a capacity is read again


@dataclass(frozen=True)
class RelayJob(BaseJob):
    """Four stages of `units` units; each of `count` can do as many bytes a second as the file `slow` says."""

    name: str
    topic: str
    slow: str = ""
    units: int = 1
    admitted: int = 1_000
    latest: bool = False
    backpressure: BackpressureConfig = DEFAULT_CONFIG
    apart: bool = False

    @property
    def dead_letters(self) -> str:
        """Nothing comes there."""
        return ""

    def stages(self) -> tuple[StageSpec, ...]:
        """Take, parse, and the two branches."""
        parse, count, keep = (f"{self.name}.{stage}" for stage in ("parse", "count", "keep"))
        return (
            StageSpec(
                "take", f"{_STEPS}:make_take", self.topic, self.units,
                downstream=parse, max_messages_per_round=self.admitted, hold_files=(STOP, HOLD),
            ),
            StageSpec(
                "parse", f"{_STEPS}:make_parse", parse, self.units, stamped=True,
                downstream=count, acks=keep, max_messages_per_round=10_000, hold_files=(STOP,),
            ),
            StageSpec(
                "count", f"{_STEPS}:make_count", count, self.units, {"slow": self.slow}, stamped=True,
                results=self.results, max_messages_per_round=10_000, hold_files=(STOP,),
                in_second_application=self.apart,
            ),
            StageSpec(
                "keep", f"{_STEPS}:make_count", keep, self.units, {"slow": ""}, stamped=True,
                max_messages_per_round=10_000, hold_files=(STOP,), in_second_application=self.apart,
            ),
        )  # fmt: skip


def make_take() -> Step:
    def take(state: State, step_input: Input) -> Output:
        """Each message as a row: its bytes, and when it was admitted."""
        rows, now = list(step_input.messages), time.time()
        batches = [
            pa.record_batch({"value": pa.array([bytes(row.value)], pa.binary()), "at": pa.array([now])}) for row in rows
        ]
        return Output(state, {step_input.unit: batches} if batches else {}, counts={"messages": len(rows)})

    return take


def make_parse() -> Step:
    def parse(state: State, step_input: Input) -> Output:
        """All rows to `count`, every second one to `keep` too."""
        batches = [_batch(message) for message in step_input.messages]
        halves = batches[::2]
        return Output(
            state, {step_input.unit: batches} if batches else {}, acks={step_input.unit: halves} if halves else {},
            counts={"messages": len(batches)},
        )  # fmt: skip

    return parse


def make_count(slow: str) -> Step:
    def count(state: State, step_input: Input) -> Output:
        """The number that each message begins with, when it was through, and how long that took from its admission."""
        rows = [_batch(message) for message in step_input.messages]
        many = sum(row.nbytes for row in rows)
        if slow:
            _work(many, Path(slow))
        if not rows:
            return Output(state)
        table = pa.Table.from_batches(rows)
        numbers = [int(value[:_DIGITS]) for value in table["value"].to_pylist()]
        now = time.time()
        late = [now - at for at in table["at"].to_pylist()]
        results_batch = pa.record_batch({"number": numbers, "at": [now] * len(numbers), "seconds": late})
        results = [results_batch.replace_schema_metadata({"query": "numbers"})] if slow else []
        return Output(state, results=results, counts={"messages": len(numbers), "bytes": many})

    return count


def numbered(number: int, size: int) -> bytes:
    """A message of so many bytes, of which `count` emits the number."""
    return b"%0*d" % (_DIGITS, number) + b"x" * (size - _DIGITS)


def allow(slow: Path, capacity: float) -> None:
    """Let `count` do so many bytes a second from now on."""
    half = slow.with_suffix(".half")
    half.write_text(f"{capacity:.1f}")
    half.replace(slow)


def _work(many: int, slow: Path) -> None:
    """Take as long as so many bytes take, though the capacity changes meanwhile."""
    left, at = float(many), time.monotonic()
    while left > 0 and (capacity := _capacity(slow)) is not None:
        time.sleep(min(left / capacity, _TURN) if capacity else _TURN)
        at, before = time.monotonic(), at
        left -= capacity * (at - before)


def _capacity(slow: Path) -> float | None:
    """Bytes a second; None: without bound."""
    with suppress(FileNotFoundError):
        return float(slow.read_text())
    return None


def _batch(message: Message) -> pa.RecordBatch:
    with pa.ipc.open_stream(message.value) as reader:
        return reader.read_next_batch()


def main(name: str, mode: str, topic: str, slow: str, applications: str = "", this: str = "") -> None:
    """Be the job's application, or that of its stages apart, until it is asked to stop."""
    from springline.spark_jobs.streaming.application.application import (
        run_job,
        run_second_application,
    )  # starts with Spark

    settings: Any = StreamSettings()
    job = RelayJob(name, topic, slow, backpressure=BackpressureConfig(mode), apart=applications == "two")
    (run_second_application if this == "--second-application" else run_job)(job, settings)


if __name__ == "__main__":
    main(*sys.argv[1:])
