"""The word count's steps alone, without Kafka and Spark: what tracking adds to them, in CPU time and in bytes sent."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from benchmarks.report import Goal, Report, Row
from springline.spark_jobs.streaming.runtime.encoding import encode_buffers
from springline.spark_jobs.streaming.runtime.message import Message
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from springline.spark_jobs.streaming.runtime.stage import Stage
from springline.spark_jobs.streaming.runtime.step import Input, Output, Round, State, Step
from springline.spark_jobs.streaming.tracking.acker.acker import Acker
from springline.spark_jobs.streaming.wordcount.count import Count
from springline.spark_jobs.streaming.wordcount.split import Split

_UNITS = 2
_LINES = 2_000  # in a message
_WORDS_A_LINE = 4
_VOCABULARY = 20_000
_ROUNDS = 12
_CASES = {"not tracked": (False, False), "at least once": (True, False), "exactly once": (True, True)}
_VERSIONS = {
    "ring": {"max_ackers": 2, "epochs": {"1": [0]}}, "low_watermarks": {"low_watermarks": {}},
    "clock": {"paused": True},
}  # fmt: skip


def run(size: str) -> Report:
    """Every case in turn, so that a change of the machine's mood meets all; the first turn compiles."""
    lines, turns = (2_000_000, 13) if size == "full" else (480_000, 5)
    texts = _texts(lines)
    measured: dict[str, list[_Passage]] = defaultdict(list)
    for turn in range(turns):
        for case, (tracked, exactly_once) in _CASES.items():
            passage = _Passage(tracked, exactly_once)
            passage.run(texts)
            if turn:
                measured[case].append(passage)
    rows = [_row(case, passages) for case, passages in measured.items()]
    plain = rows[0]["ns a line"]
    prices = {row["case"]: round(100 * (1 - plain / row["ns a line"]), 1) for row in rows[1:]}
    goals = [Goal(f"price in the steps, {case}, %", price, "at most 8", price <= 8) for case, price in prices.items()]
    remarks = [
        f"One core, the least of {turns - 1} turns for each call; {lines:,} lines of {_WORDS_A_LINE} words, {_LINES:,} "
        "a message, two units of each stage.",
    ]
    return Report("tracking_steps", size, rows, goals, remarks)


def _texts(lines: int) -> list[bytes]:
    drawn = random.Random(20130101)
    vocabulary = [f"word{number:05}" for number in range(_VOCABULARY)]
    return [
        "\n".join(" ".join(drawn.choices(vocabulary, k=_WORDS_A_LINE)) for _ in range(_LINES)).encode()
        for _ in range(lines // _LINES)
    ]


def _row(case: str, passages: list[_Passage]) -> Row:
    least = {
        step: sum(map(min, zip(*(one.cpu[step] for one in passages), strict=True)))
        for step in ("split", "count", "acker")
    }
    row: dict[str, object] = {"case": case, "ns a line": round(sum(least.values()), 1)}
    row |= {f"{step} ns": round(nanoseconds, 1) for step, nanoseconds in least.items()}
    row["sent B a line"] = round(passages[0].sent["words"], 2)
    row["acks B a line"] = round(passages[0].sent["acks"], 3)
    return row


class _Passage:
    """One passage of all lines through fresh steps: CPU time in ns of each call, and bytes sent, both a line."""

    def __init__(self, tracked: bool, exactly_once: bool) -> None:
        self.cpu: dict[str, list[float]] = defaultdict(list)
        self.sent: dict[str, float] = defaultdict(float)
        self._tracked = tracked
        acks = "acks" if tracked else ""
        self._stages = {
            "split": Stage("split", "", "lines", _UNITS, job="w", downstream="words", acks=acks),
            "count": Stage("count", "", "words", _UNITS, job="w", acks=acks),
        }
        self._steps: dict[str, Step] = {
            "split": Split(_UNITS, tracked), "count": Count(exactly_once, 5.0, tracked), "acker": Acker(30.0, 5),
        }  # fmt: skip
        self._states: dict[tuple[str, int], State] = defaultdict(State)

    def run(self, texts: list[bytes]) -> None:
        """Send all messages; with tracking, every line is complete at the end."""
        of_round = len(texts) // _UNITS // _ROUNDS
        self._lines = of_round * _ROUNDS * _UNITS * _LINES
        completed = 0
        for number in range(1, _ROUNDS + 1):
            start, to = (number - 1) * of_round, number * of_round
            inboxes: dict[str, list[list[Message]]] = {"words": [[], []], "acks": [[]]}
            for unit in range(_UNITS):
                input_messages = [Message(at, texts[unit::_UNITS][at], partition=unit) for at in range(start, to)]
                self._step("split", unit, number, input_messages, inboxes, {unit: (start, to)})
            for unit in range(_UNITS):
                self._step("count", unit, number, inboxes["words"][unit], inboxes)
            if self._tracked:
                output = self._step("acker", 0, number, inboxes["acks"][0], inboxes)
                completed += output.counts["completed"]
        assert not self._tracked or completed == self._lines
        self.sent = defaultdict(float, {name: size / self._lines for name, size in self.sent.items()})

    def _step(
        self, name: str, unit: int, number: int, messages: list[Message], inboxes: dict[str, list[list[Message]]],
        ranges: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    ) -> Output:  # fmt: skip
        step_input = Input(name, unit, Round(1, number, float(number), _VERSIONS), messages, ranges)
        with self._timed(name):
            output = self._steps[name](self._states[name, unit], step_input)
            records: list[OutgoingRecord] = []
            if name in self._stages:
                records = list(encode_buffers(self._stages[name], unit, (1, number), output))
        self._states[name, unit] = output.state
        for record in records:
            self.sent[record.topic] += len(record.value)
            inboxes[record.topic][record.partition].append(Message(0, record.value, 0.0, record.headers))
        return output

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started_at = time.process_time()
        yield
        self.cpu[name].append((time.process_time() - started_at) * 1e9 / self._lines)
