"""A stream job on a real Kafka, as a process of its own that a test may harm, and start again."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from springline.spark_jobs.streaming.application.status import JobStatus
from springline.spark_jobs.streaming.examples.datagen import send
from springline.spark_jobs.streaming.examples.flights import TimedMessage
from springline.spark_jobs.streaming.examples.netflow import FIELDS, Flows
from springline.spark_jobs.streaming.runtime.message_log import OutgoingRecord
from tests.support.servers.servers import Running
from tests.support.streams.application import Application

SQL = "SELECT sip, type, count(*) AS rows, sum(bytes) AS bytes FROM {name} GROUP BY sip, type WINDOWING 5 s"


class StreamJob(Application):
    """A job over net flows: sums over windows of five seconds, by two mappers and two reducers."""

    def __init__(self, kafka: Running, home: Path, *, admitted: int, row_format: str = "csv", **settings: str) -> None:
        name = f"flows_{uuid.uuid4().hex[:8]}"
        super().__init__(kafka, home, name, _declared(name, admitted, row_format), **settings)

    # ---- what it reads and writes

    def feed(self, flows: Flows, *, size: int, partitions: int = 2) -> None:
        """Send all rows, as CSV."""
        with self.kafka.log() as log:
            log.create({self.name: partitions})
            send(log, self.name, (TimedMessage(0.0, value) for value in flows.messages(size=size)))

    def results(self, incarnation: int = 1) -> Counter[str]:
        """All results, as a plain consumer sees them that reads what is committed."""
        result_counts: Counter[str] = Counter()
        for value, headers in read_committed(self.kafka.address, f"{self.name}.results"):
            for line in value.splitlines() if headers["incarnation"] == str(incarnation).encode() else ():
                row = json.loads(line)
                result_counts[
                    f"{row['window_start'][:19]} {row['sip']} {row['type']} {row['rows']} {row['bytes']}"
                ] += 1
        return result_counts

    def dead_letters(self) -> Counter[str]:
        """The reasons of what could not be used."""
        messages = read_committed(self.kafka.address, f"{self.name}.dead-letters")
        return Counter(headers["reason"].decode() for _, headers in messages)

    def put(self, value: bytes, unit: int = 0) -> None:
        """Append a message of any content."""
        with self.kafka.log() as log, log.record_sender() as sending:
            sending.send(OutgoingRecord(self.name, unit, value))

    def counted(self) -> int:
        """Rows in all results so far."""
        return sum(int(line.split()[3]) * times for line, times in self.results().items())

    def add_partition(self) -> None:
        """Let the topic have one more."""
        with self.kafka.log() as log:
            partitions = len(log.offset_bounds(self.name))
        add_partitions(self.kafka.address, self.name, partitions + 1)

    # ---- waiting for it

    def await_round(self, number: int, *, patience: float = 240) -> JobStatus:
        """Wait until the mappers have ended a round."""
        return self.await_(lambda status: status.stages.get("map", {}).get("round", 0) >= number, patience=patience)

    def await_rows(self, rows: int, *, patience: float = 400) -> None:
        """Wait until so many rows are in results, which are read once the mappers have read as many."""

        def are_counted(status: JobStatus) -> bool:
            read_rows = status.stages.get("map", {}).get("counts", {}).get("rows", 0)
            return read_rows >= rows and self.counted() >= rows

        self.await_(are_counted, patience=patience)

    def apply_faults(self, faults: Sequence[Callable[[], None]], drawn: random.Random) -> int:
        """Run, with the faults in a random order, some rounds apart; how many of them came while there was work."""
        self.start()
        number = at_work = 0
        for fault in drawn.sample(faults, len(faults)):
            number += drawn.randint(2, 6)
            at_work += self.await_round(number).stages["map"]["lag"] > 0
            fault()
        return at_work


def expected(flows: Flows) -> Counter[str]:
    """The results by DuckDB, from the same rows."""
    rows: pa.Table = flows.table(0, flows.rows)  # noqa: F841  (the query names it)
    result_rows = duckdb.sql(
        """SELECT strftime(make_timestamp((floor(timestamp / 5) * 5 * 1000000)::BIGINT), '%Y-%m-%dT%H:%M:%S') AS start,
             sip, type, count(*) AS rows, sum(bytes)::BIGINT AS bytes FROM rows GROUP BY ALL"""
    ).fetchall()
    return Counter(" ".join(str(value) for value in row) for row in result_rows)


def add_partitions(address: str, topic: str, count: int) -> None:
    """Let a topic have so many partitions."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result()


def read_committed(servers: str, topic: str) -> Iterable[tuple[bytes, dict[str, bytes]]]:
    """All messages of a topic with their headers, by a consumer that knows nothing of us."""
    options = {"bootstrap.servers": servers, "group.id": "plain", "enable.partition.eof": True,
               "isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.auto.commit": False,
               "fetch.wait.max.ms": 10}  # fmt: skip
    consumer = Consumer(options)
    metadata = consumer.list_topics(topic, 10).topics[topic]
    left = set(metadata.partitions)
    consumer.assign([TopicPartition(topic, unit, 0) for unit in left])
    while left:
        if (message := consumer.poll(0.5)) is None:  # unlike `consume`, which would wait for more
            continue
        if (error := message.error()) is None:
            yield message.value() or b"", dict(message.headers() or ())
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
    consumer.close()


def _declared(name: str, admitted: int, row_format: str) -> str:
    fields = json.dumps([[field.name, field.type] for field in FIELDS])
    return (
        f'[{name}]\ntopic = "{name}"\nmax_messages_per_round = {admitted}\n\n'
        f'[{name}.stream]\ntime = "timestamp"\nlateness = 5.0\nidle_timeout = 3.0\nfields = {fields}\n'
        f'format = "{row_format}"\n\n'
        f'[{name}.queries]\nsums = "{SQL.format(name=name)}"\n'
    )
