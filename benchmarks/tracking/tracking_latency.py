"""How long it takes until a root is known to be complete: from the round that sent its last ack, by load.

Roots are lines of one word, so that each has one ack. The stage that counts reports after each round how many words it
has acked, the ackers how many roots are complete; the n-th of the one and the n-th of the other make a sample.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from benchmarks.report import Goal, Report
from benchmarks.streams.application import running
from benchmarks.streams.broker import Place, place
from benchmarks.streams.job_reports import JobReports
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.producer import KafkaSender
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord

_JOB = "latency"
_UNITS = 2
_A_SECOND = 50  # messages of a unit
_WARM = 30.0  # seconds
_DECLARED = f'[{_JOB}]\nkind = "wordcount"\ntopic = "{_JOB}"\nparallelism = {_UNITS}\n'
_RATE = 100_000  # roots a second, at which the goals are


def run(size: str) -> Report:
    """A job that stays warm, under one load after another."""
    rates, seconds = ((25_000, 50_000, _RATE, 200_000), 60.0) if size == "full" else ((_RATE,), 20.0)
    rows = []
    with place() as where, running(where, _JOB, _DECLARED, _UNITS):
        _loaded(where, _RATE, _WARM)
        for rate in rates:
            rows.append(_row(rate, *_loaded(where, rate, seconds)))
            print(rows[-1], file=sys.stderr, flush=True)
    goal_row = next(row for row in rows if row["roots/s"] == _RATE)
    goals = [
        Goal(f"p50 at {_RATE:,} roots/s, ms", goal_row["p50 ms"], "at most 250", goal_row["p50 ms"] <= 250),
        Goal(f"p99 at {_RATE:,} roots/s, ms", goal_row["p99 ms"], "at most 600", goal_row["p99 ms"] <= 600),
    ]
    remarks = [
        "Lines of one word, two units of each stage, one acker; 100 messages a second. Sender, broker and job share "
        "the cores.",
    ]
    return Report("tracking_latency", size, rows, goals, remarks)


def _row(rate: int, latencies: npt.NDArray[np.float64], sent: float) -> Mapping[str, Any]:
    milliseconds = latencies * 1000
    return {
        "roots/s": rate,
        "sent roots/s": round(sent),
        **{f"p{share} ms": round(float(np.percentile(milliseconds, share))) for share in (50, 90, 99)},
        "most ms": round(float(milliseconds.max())),
    }


class _Steps(threading.Thread):
    """Notes how far the units of a stage were, and when, from their reports."""

    def __init__(self, kafka: str) -> None:
        super().__init__(daemon=True)
        self._kafka = kafka
        self.over = threading.Event()
        self.reports: dict[tuple[str, int], dict[int, tuple[float, int]]] = {}

    def run(self) -> None:
        with closing(JobReports(_JOB, self._kafka)) as job_reports:
            while not self.over.wait(0.004):
                for stage in ("count", "acker"):
                    for unit, report in job_reports.reports(stage).items():
                        count = (
                            report.totals.counts.get("rows", 0)
                            if stage == "count"
                            else report.round.gauges["completed"]
                        )
                        self.reports.setdefault((stage, unit), {})[report.round.number] = (report.round.ended_at, count)

    def reached(self, stage: str) -> npt.NDArray[np.float64]:
        """Times, and how far all units together were then: two columns."""
        events = []
        for (name, _), rounds in self.reports.items():
            if name == stage:
                before = None
                for at, count in (rounds[number] for number in sorted(rounds)):
                    events.append((at, count - before if before is not None else count))
                    before = count
        course = np.array(sorted(events))
        course[:, 1] = np.cumsum(course[:, 1])
        return course


def _loaded(where: Place, rate: int, seconds: float) -> tuple[npt.NDArray[np.float64], float]:
    """Seconds from ack to completion under a load, root by root, and the roots a second that were really sent."""
    steps = _Steps(where.kafka)
    steps.start()
    time.sleep(1.5)  # each unit has reported once how far it was before
    context = multiprocessing.get_context("spawn")
    rates = context.Queue()
    feeder = context.Process(target=_feed, args=(where.kafka, rate, seconds, rates))
    feeder.start()
    feeder.join()
    time.sleep(3.0)
    steps.over.set()
    steps.join()
    acked, complete = steps.reached("count"), steps.reached("acker")
    first, last = acked[0, 1], min(acked[-1, 1], complete[-1, 1])
    roots = np.arange(first + (last - first) * 0.1, last, max(rate // 1_000, 1))
    waited = complete[np.searchsorted(complete[:, 1], roots), 0] - acked[np.searchsorted(acked[:, 1], roots), 0]
    return waited, rates.get() / seconds


def _feed(kafka: str, rate: int, seconds: float, rates: Any) -> None:
    """Send lines; returns how many there were: fewer than asked for where the broker does not take so many."""
    lines = max(rate // (_UNITS * _A_SECOND), 1)
    value = "\n".join(f"w{number % 1_000}" for number in range(lines)).encode()
    sending = KafkaSender(Producer(Cluster(kafka).config(linger_ms=0)), 30)
    started_at, number = time.time(), 0
    while (
        send_at := started_at + number / (_UNITS * _A_SECOND)
    ) < started_at + seconds and time.time() < started_at + seconds:
        time.sleep(max(send_at - time.time(), 0))
        sending.send(OutgoingRecord(_JOB, number % _UNITS, value))
        number += 1
    sending.finish()
    rates.put(number * lines)
