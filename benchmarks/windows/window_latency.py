"""How long a result takes: from the append of the row that closes its window until it can be read, by load."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.report import Goal, Report
from benchmarks.streams.application import running
from benchmarks.streams.broker import Place, place
from springline.spark_jobs.streaming.examples.netflow import FIELDS, Flows, encode_table
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.producer import KafkaSender
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord

_JOB = "latency"
_UNITS = 2
_A_SECOND = 100  # messages of a unit
_WARM = 40.0  # seconds
_SQL = f"SELECT type, count(*) AS n, sum(bytes) AS b FROM {_JOB} GROUP BY type WINDOWING 1 s"


def run(size: str) -> Report:
    """A job that stays warm, under one load after another; a window a second is one sample."""
    rates, seconds = (
        ((25_000, 50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000), 60) if size == "full" else ((100_000,), 20)
    )
    rows = []
    with place() as where, running(where, _JOB, _declared(), _UNITS):
        _loaded(where, 100_000, _WARM)
        for rate in rates:
            latencies, sent = _loaded(where, rate, seconds)
            rows.append(_row(rate, latencies, sent))
            print(rows[-1], file=sys.stderr, flush=True)
    goal_row = next(row for row in rows if row["rows/s"] == 100_000)
    goals = [
        Goal("p50 at 100,000 rows/s, ms", goal_row["p50 ms"], "at most 250", goal_row["p50 ms"] <= 250),
        Goal("p99 at 100,000 rows/s, ms", goal_row["p99 ms"], "at most 500", goal_row["p99 ms"] <= 500),
    ]
    remarks = [
        "Windows of 1 s by 10 keys, two units, two reducers; Arrow messages, 200 a second. A window is closed when "
        "both units have a row of a later second. Sender, reader, broker and job share the cores.",
    ]
    return Report("window_latency", size, rows, goals, remarks)


def _row(rate: int, latencies: list[float], sent: float) -> Mapping[str, Any]:
    milliseconds = np.array(latencies) * 1000 if latencies else np.array([np.nan])
    return {
        "rows/s": rate,
        "sent rows/s": round(sent),
        "windows": len(latencies),
        **{f"p{share} ms": round(float(np.percentile(milliseconds, share))) for share in (50, 90, 99)},
        "most ms": round(float(milliseconds.max())),
    }


def _loaded(where: Place, rate: int, seconds: float) -> tuple[list[float], float]:
    """The latencies of the windows of so many seconds under a load, and the rows a second that were really sent."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    feeder = context.Process(target=_feed, args=(where.kafka, rate, seconds, results))
    reader = _Reader(where.kafka)
    feeder.start()
    arrived = reader.until(feeder)
    feeder.join()
    closed, sent = results.get()
    reader.close()
    latencies = [at - closed[end] for end, at in sorted(arrived.items()) if end in closed]
    return latencies[3:], sent / seconds


def _feed(kafka: str, rate: int, seconds: float, results: Any) -> None:
    """Send rows of the present time; returns when each second was closed in all units, and how many rows there were.

    Those are fewer than were wanted where the broker does not take so many.
    """
    table = Flows(rate).table(0, max(rate // (_UNITS * _A_SECOND), 1))
    producer = Producer(Cluster(kafka).config(linger_ms=0, queue_buffering_max_kbytes=262_144))
    sending = KafkaSender(producer, 30)
    first: dict[int, dict[int, float]] = defaultdict(dict)
    started_at, number = time.time(), 0
    while (send_at := started_at + number / (_UNITS * _A_SECOND)) < started_at + seconds:
        time.sleep(max(send_at - time.time(), 0))
        unit, now = number % _UNITS, time.time()
        if now > started_at + seconds:
            break
        times = pa.array(np.full(table.num_rows, now))
        sending.send(OutgoingRecord(_JOB, unit, encode_table(table.set_column(0, "timestamp", times), "arrow")))
        first[int(now)].setdefault(unit, time.time())
        number += 1
    producer.flush(30)
    closed = {second: max(units.values()) for second, units in first.items() if len(units) == _UNITS}
    results.put((closed, number * table.num_rows))


class _Reader:
    """A consumer of what is committed, from now on."""

    def __init__(self, kafka: str) -> None:
        self._consumer = Consumer(
            Cluster(kafka).config(group_id="latency", isolation_level="read_committed", fetch_wait_max_ms=5)
        )
        topic = f"{_JOB}.results"
        places = [TopicPartition(topic, unit) for unit in range(_UNITS)]
        self._consumer.assign(
            [TopicPartition(topic, at.partition, self._consumer.get_watermark_offsets(at)[1]) for at in places]
        )

    def until(self, feeder: Any) -> dict[int, float]:
        """When the last result of each window could be read, by the second that the window ends at."""
        times: dict[int, float] = {}
        ended: float | None = None
        while ended is None or time.time() - ended < 3:
            ended = time.time() if ended is None and not feeder.is_alive() else ended
            if (message := self._consumer.poll(0.02)) is None or message.error():
                continue
            at = time.time()
            for line in (message.value() or b"").splitlines():
                text = json.loads(line)["window_end"][:19]
                times[int(np.datetime64(text).astype("datetime64[s]").astype(int))] = at
        return times

    def close(self) -> None:
        self._consumer.close()


def _declared() -> str:
    fields = json.dumps([[field.name, field.type] for field in FIELDS])
    return (
        f'[{_JOB}]\ntopic = "{_JOB}"\nparallelism = {_UNITS}\n[{_JOB}.stream]\ntime = "timestamp"\nformat = "arrow"\n'
        f'fields = {fields}\n[{_JOB}.queries]\nq = "{_SQL}"\n'
    )
