"""The streams of a soak: what is declared, what feeds them, and what must have come out, from the topics themselves."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import duckdb
import pandas as pd

from benchmarks.cluster.soaking.cluster import SoakCluster
from springline.services.airflow_api import AirflowApiError
from springline.services.demo.streams import dag_of, has_caught_up
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.examples.datagen import SampleSource, messages_of
from springline.spark_jobs.streaming.examples.netflow import FIELDS
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord

FLOWS, WORD_COUNTS, ORDERS = "flows", "words", "orders"
JOBS = {FLOWS: "map", WORD_COUNTS: "split", ORDERS: "route"}  # each with its first stage
_UNITS = 2
_POLL_SECONDS = 2.0
_PATIENCE = 600.0  # seconds for a stream to work at first, and for all to be through in the end
_FAR = 86_400.0  # seconds of event time after the last row: every window closes

DECLARED = f"""
[{FLOWS}]
topic = "flows"
parallelism = 2
[{FLOWS}.stream]
time = "timestamp"
lateness = 5.0
idle_timeout = 1e9  # no unit is passed over: what is late would depend on the clock, and on the faults
fields = {json.dumps([[each.name, each.type] for each in FIELDS])}
[{FLOWS}.queries]
sums = "SELECT sip, type, count(*) AS rows, sum(bytes) AS bytes FROM flows GROUP BY sip, type WINDOWING 10 s"

[{WORD_COUNTS}]
kind = "wordcount"
topic = "lines"
[{WORD_COUNTS}.tracking]
timeout = 60.0

[{ORDERS}]
kind = "join"
on = "l.orderkey = r.orderkey AND l.priority = '1-URGENT' AND r.quantity > 45"
select = ["l.orderkey", "l.customer", "r.quantity", "r.price"]
parallelism = 2
max_units = 4
[{ORDERS}.left]
topic = "orders"
fields = [["orderkey", "int"], ["customer", "int"], ["priority", "text"]]
[{ORDERS}.right]
topic = "items"
fields = [["orderkey", "int"], ["quantity", "int"], ["price", "float"], ["shipmode", "text"]]
"""


@dataclass(frozen=True)
class Feed:
    """Rows of a source for a topic: so many a second, so many a message."""

    topic: str
    source: SampleSource
    speed: float
    size: int


FEEDS = (
    Feed("flows", SampleSource.FLOWS, 500, 50),
    Feed("lines", SampleSource.LINES, 200, 20),
    Feed("orders", SampleSource.ORDERS, 50, 10),
    Feed("items", SampleSource.ITEMS, 100, 20),
)


def begin(soak_cluster: SoakCluster) -> None:
    """Make the topics, and start one stream after another, each under its DAG."""
    with closing(Kafka(soak_cluster.streams.cluster)) as log:
        log.create({feed.topic: _UNITS for feed in FEEDS})
    for job in JOBS:
        soak_cluster.api.pause(dag_of(job), False)
        soak_cluster.api.trigger(dag_of(job), {})
        until = time.monotonic() + _PATIENCE
        while not status_of(soak_cluster, job).stages:
            if time.monotonic() > until:
                raise StreamError(f"{job} does not come to work: {status_of(soak_cluster, job)}")
            time.sleep(_POLL_SECONDS)
    threading.Thread(target=_keep, args=(soak_cluster,), daemon=True).start()


def status_of(soak_cluster: SoakCluster, job: str) -> JobStatus:
    """How a stream is."""
    return read_status(job, soak_cluster.streams.folder(job), time.time())


def rows_of(soak_cluster: SoakCluster, job: str) -> int:
    """The rows that its first stage has read."""
    return int(status_of(soak_cluster, job).stages.get(JOBS[job], {}).get("counts", {}).get("rows", 0))


def _keep(soak_cluster: SoakCluster) -> None:
    """Trigger the DAG of a stream whose run has ended, as a person would have to."""
    while not soak_cluster.over.wait(_POLL_SECONDS):
        for job in JOBS:
            try:
                if not soak_cluster.api.active_runs(dag_of(job)):
                    soak_cluster.diary.note(f"the run of {dag_of(job)} has ended: triggered again by hand", "by hand")
                    soak_cluster.api.trigger(dag_of(job), {})
            except AirflowApiError:
                continue  # it is away at the moment


class Feeding:
    """Sends rows as they are due until it is ended; what a broker did not take is sent again."""

    def __init__(self, cluster: Cluster, seconds: float) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._feed, args=(feed, seconds), daemon=True) for feed in FEEDS]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop, and send a row to each unit of the flows that lets all windows close."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        with closing(Kafka(self._cluster)) as log:
            last = max(_rows(log, FLOWS), key=_time)
        end = f"{_time(last) + _FAR},{last.partition(',')[2]}\n".encode()
        with closing(_Patient(self._cluster)) as log:
            for unit in range(_UNITS):
                log.send(OutgoingRecord(FLOWS, unit, end))

    def _feed(self, feed: Feed, seconds: float) -> None:
        messages = messages_of(feed.source, rows=int(seconds * feed.speed), size=feed.size, speed=feed.speed)
        started_at = time.monotonic()
        with closing(_Patient(self._cluster)) as log:
            for number, message in enumerate(messages):
                if self._over.wait(max(0.0, message.seconds - (time.monotonic() - started_at))):
                    return
                log.send(OutgoingRecord(feed.topic, number % _UNITS, message.value))


class _Patient:
    """Sends messages until the broker has them; one may then be there twice, and is looked for twice in results."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._log = Kafka(cluster)

    def send(self, letter: OutgoingRecord) -> None:
        """Send one, and again while that fails."""
        while True:
            try:
                with self._log.record_sender() as sending:
                    sending.send(letter)
                return
            except StreamError:
                self._log.close()
                time.sleep(1)
                self._log = Kafka(self._cluster)

    def close(self) -> None:
        """Let go of the connection."""
        self._log.close()


def await_completion(soak_cluster: SoakCluster) -> None:
    """Wait until the streams have taken all that was sent; raises `StreamError`."""
    until = time.monotonic() + _PATIENCE
    level = 0
    while level < 3:
        late = [each for each in (status_of(soak_cluster, job) for job in JOBS) if not has_caught_up(each)]
        level = 0 if late else level + 1
        if time.monotonic() > until:
            raise StreamError(f"not through after {_PATIENCE:g} s: {late}")
        time.sleep(_POLL_SECONDS)


def wrong(soak_cluster: SoakCluster) -> dict[str, int]:
    """By stream, how many results are missing, doubled or others than they should be; of how many is noted."""
    with closing(Kafka(soak_cluster.streams.cluster)) as log:
        comparison = compared(log)
    for job, (expected, reported, different) in comparison.items():
        soak_cluster.diary.note(f"{job}: {reported:,} told, {expected:,} wanted, {different:,} wrong")
    return {job: different for job, (_, _, different) in comparison.items()}


def compared(log: MessageLog) -> dict[str, tuple[int, int, int]]:
    """By stream, how many results are expected of the input, how many were emitted, and in how many they differ."""
    results = {
        FLOWS: (_expected_sums(log), _reported_rows(log, FLOWS, ("window_start", "sip", "type", "rows", "bytes"))),
        WORD_COUNTS: (_expected_words(log), _reported_words(log)),
        ORDERS: (_expected_pairs(log), _reported_rows(log, ORDERS, ("orderkey", "customer", "quantity", "price"))),
    }
    return {
        job: (expected.total(), reported.total(), (expected - reported).total() + (reported - expected).total())
        for job, (expected, reported) in results.items()
    }


def _time(row: str) -> float:
    return float(row.partition(",")[0])


def _rows(log: MessageLog, topic: str) -> Iterator[str]:
    for unit, extent in log.offset_bounds(topic).items():
        for message in log.fetch(topic, unit, extent.low, extent.high):
            yield from bytes(message.value).decode().splitlines()


def _reported_rows(log: MessageLog, job: str, names: Iterable[str]) -> Counter[tuple[str, ...]]:
    rows = (json.loads(line) for line in _rows(log, f"{job}.results"))
    return Counter(tuple(_text_of(row[name]) for name in names) for row in rows)


def _text_of(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)[:19]


def _expected_sums(log: MessageLog) -> Counter[tuple[str, ...]]:
    fed = pd.DataFrame(  # noqa: F841  (the query names it)
        [(float(row[0]), row[1], row[2], int(row[6])) for row in (line.split(",") for line in _rows(log, FLOWS))],
        columns=["seconds", "sip", "type", "bytes"],
    )
    rows = duckdb.execute(
        f"""SELECT strftime(make_timestamp((floor(seconds / 10) * 10000000)::BIGINT), '%Y-%m-%dT%H:%M:%S'),
          sip, type, count(*), sum(bytes)::BIGINT FROM fed WHERE seconds < (SELECT max(seconds) FROM fed) - {_FAR / 2}
          GROUP BY floor(seconds / 10), sip, type"""
    ).fetchall()
    return Counter(tuple(str(value) for value in row) for row in rows)


def _expected_words(log: MessageLog) -> Counter[tuple[str, ...]]:
    return Counter((word,) for line in _rows(log, "lines") for word in line.split())


def _reported_words(log: MessageLog) -> Counter[tuple[str, ...]]:
    word_counts: Counter[tuple[str, ...]] = Counter()
    for line in _rows(log, f"{WORD_COUNTS}.results"):
        row = json.loads(line)
        word_counts[(row["word"],)] = max(word_counts[(row["word"],)], row["count"])
    return word_counts


def _expected_pairs(log: MessageLog) -> Counter[tuple[str, ...]]:
    one = pd.DataFrame(  # noqa: F841
        (line.split(",") for line in _rows(log, "orders")), columns=["orderkey", "customer", "priority"]
    )
    other = pd.DataFrame(  # noqa: F841
        (line.split(",") for line in _rows(log, "items")), columns=["orderkey", "quantity", "price", "shipmode"]
    )
    rows = duckdb.execute(
        """SELECT orderkey, customer, quantity, price::DOUBLE FROM one JOIN other USING (orderkey)
          WHERE priority = '1-URGENT' AND quantity::INT > 45"""
    ).fetchall()
    return Counter(tuple(_text_of(value) for value in row) for row in rows)
