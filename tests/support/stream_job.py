"""A stream job on a real Kafka, as a process of its own that a test may harm, and start again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from services.java import find_java
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.inputs.feeding import send
from spark_jobs.streaming.inputs.flights import Due
from spark_jobs.streaming.inputs.flows import FIELDS, Flows
from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.supervision import launch
from spark_jobs.streaming.unitlog.log import Letter
from spark_jobs.streaming.watching import Seen, look
from tests.support.servers import Running
from tests.support.waiting import until

SQL = "SELECT sip, type, count(*) AS rows, sum(bytes) AS bytes FROM {name} GROUP BY sip, type WINDOWING 5 s"


class StreamJob:
    """A job over net flows: sums over windows of five seconds, on two units of a topic, with two reducers."""

    def __init__(self, kafka: Running, home: Path, *, admitted: int, **settings: str) -> None:
        self.home = home
        self.name = f"flows_{uuid.uuid4().hex[:8]}"
        self.folder = JobFolder(home / "streams" / self.name)
        self.state = home / "state"
        self._kafka = kafka
        home.mkdir(parents=True)
        (home / "streams.toml").write_text(_declared(self.name, admitted))
        self._environment = {
            **os.environ,
            **find_java(os.environ, home).environment(os.environ.get("PATH", "")),
            "SPRINGLINE_HOME": str(home),
            "SPRINGLINE_KAFKA": kafka.address,
            "SPRINGLINE_STREAMS": str(home / "streams.toml"),
            "SPRINGLINE_STREAM_STATE": str(self.state),
            **settings,
        }
        self._application: subprocess.Popen[bytes] | None = None

    # ---- what it reads and writes

    def feed(self, flows: Flows, *, size: int) -> None:
        """Send all rows, as CSV."""
        with closing(Kafka(Cluster(self._kafka.address))) as log:
            log.create({self.name: 2})
            send(log, self.name, (Due(0.0, value) for value in flows.messages(size=size)))

    def results(self, incarnation: int = 1) -> Counter[str]:
        """All results, as a plain consumer sees them that reads what is committed."""
        found: Counter[str] = Counter()
        for value, headers in read_committed(self._kafka.address, f"{self.name}.results"):
            for line in value.splitlines() if headers["incarnation"] == str(incarnation).encode() else ():
                told = json.loads(line)
                found[f"{told['window_start'][:19]} {told['sip']} {told['type']} {told['rows']} {told['bytes']}"] += 1
        return found

    def dead_letters(self) -> Counter[str]:
        """The reasons of what could not be used."""
        letters = read_committed(self._kafka.address, f"{self.name}.dead")
        return Counter(headers["reason"].decode() for _, headers in letters)

    def put(self, value: bytes, unit: int = 0) -> None:
        """Append a message of any content."""
        with closing(Kafka(Cluster(self._kafka.address))) as log, log.sending() as sending:
            sending.send(Letter(self.name, unit, value))

    def counted(self, incarnation: int = 1) -> int:
        """Rows in all results so far."""
        return sum(int(line.split()[3]) * times for line, times in self.results(incarnation).items())

    def forget_rows(self) -> None:
        """Delete the rows from their topic, as a retention by time would."""
        with closing(Kafka(Cluster(self._kafka.address))) as log:
            log.delete(self.name, {unit: extent.high for unit, extent in log.extents(self.name).items()})

    # ---- running it

    def start(self) -> None:
        """Start the application, unless it lives."""
        if self._application is None or self._application.poll() is not None:
            self._application = launch(self.name, self.folder, environment=self._environment)

    def look(self) -> Seen:
        """How the job is."""
        return look(self.name, self.folder, time.time())

    def await_(self, done: Callable[[Seen], bool], *, patience: float, again: bool = True) -> Seen:
        """Wait until `done`; the application is started again when it ends, as a supervisor would."""

        def seen() -> Seen | None:
            found = self.look()
            if done(found):
                return found
            if again:
                self.start()
            return None

        found = until(seen, seconds=patience, every=0.2, why=lambda: f"{self.look()}\n{self.log()}")
        assert found is not None
        return found

    def await_round(self, number: int, *, patience: float = 240) -> Seen:
        """Wait until the mappers have ended a round."""
        return self.await_(lambda seen: seen.stages.get("map", {}).get("round", 0) >= number, patience=patience)

    def await_rows(self, rows: int, *, incarnation: int = 1, patience: float = 240) -> None:
        """Wait until so many rows are in results."""
        self.await_(lambda _: self.counted(incarnation) >= rows, patience=patience)

    def run(self, command: str, *arguments: str) -> str:
        """What a command about the job prints."""
        words = [sys.executable, "-m", "spark_jobs", "streams", command, self.name, *arguments]
        done = subprocess.run(words, env=self._environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        """Stop at a round's boundary."""
        self.folder.ask_to_stop()
        assert self._application is not None
        assert self._application.wait(60) == 0, self.log()

    def close(self) -> None:
        """End whatever lives."""
        if self._application is not None and self._application.poll() is None:
            self.kill_all()
        shutil.rmtree(self.home, ignore_errors=True)

    def log(self) -> str:
        """The end of what the application has printed."""
        return self.folder.log_file.read_text()[-3000:] if self.folder.log_file.exists() else ""

    # ---- faults

    def processes(self, kind: str) -> list[psutil.Process]:
        """Processes of the application: `driver`, `jvm`, or Python `worker`s."""
        assert self._application is not None
        driver = psutil.Process(self._application.pid)
        below = driver.children(recursive=True)
        jvms = [each for each in below if _command(each).partition(" ")[0].endswith("java")]
        daemons = [each for each in below if "pyspark.daemon" in _command(each)]
        daemon_pids = {each.pid for each in daemons}
        workers = [each for each in daemons if _parent(each) in daemon_pids]
        return {"driver": [driver], "jvm": jvms, "worker": workers}[kind]

    def kill(self, kind: str) -> None:
        """kill -9 of the first of those processes that lives."""
        for process in self.processes(kind)[:1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def lose_states(self) -> None:
        """Delete the states and Spark's checkpoints, while they are written to or not."""
        _lose(self.state / self.name)

    def lose_checkpoints(self) -> None:
        """Delete Spark's own log of rounds."""
        _lose(self.state / self.name / "checkpoints")

    def go_through(self, faults: Sequence[Callable[[], None]], drawn: random.Random) -> int:
        """Run, with the faults in a random order, some rounds apart; how many of them came while there was work."""
        self.start()
        number = at_work = 0
        for fault in drawn.sample(faults, len(faults)):
            number += drawn.randint(2, 8)
            at_work += self.await_round(number).stages["map"]["behind"] > 0
            fault()
        return at_work

    def kill_all(self) -> None:
        """kill -9 of the application and all that it started."""
        assert self._application is not None
        with suppress(psutil.NoSuchProcess):
            everyone = psutil.Process(self._application.pid).children(recursive=True)
            os.killpg(self._application.pid, signal.SIGKILL)
            for process in everyone:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self._application.wait(10)


def _lose(folder: Path) -> None:
    """Delete a folder at once: whoever writes meanwhile writes to a new one."""
    gone = folder.with_name(f"gone-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # lost already, and not there again
        folder.rename(gone)
        shutil.rmtree(gone)


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):  # it may be a zombie
        return " ".join(process.cmdline())
    return ""


def _parent(process: psutil.Process) -> int | None:
    with suppress(psutil.NoSuchProcess):  # it may end meanwhile
        return process.ppid()
    return None


def expected(flows: Flows) -> Counter[str]:
    """The results by DuckDB, from the same rows."""
    rows: pa.Table = flows.table(0, flows.rows)  # noqa: F841  (the query names it)
    found = duckdb.sql(
        """SELECT strftime(make_timestamp((floor(timestamp / 5) * 5 * 1000000)::BIGINT), '%Y-%m-%dT%H:%M:%S') AS start,
             sip, type, count(*) AS rows, sum(bytes)::BIGINT AS bytes FROM rows GROUP BY ALL"""
    ).fetchall()
    return Counter(" ".join(str(value) for value in row) for row in found)


def read_committed(servers: str, topic: str) -> Iterable[tuple[bytes, dict[str, bytes]]]:
    """All messages of a topic with their headers, by a consumer that knows nothing of us."""
    options = {"bootstrap.servers": servers, "group.id": "plain", "enable.partition.eof": True,
               "isolation.level": "read_committed", "auto.offset.reset": "earliest"}  # fmt: skip
    consumer = Consumer(options)
    told = consumer.list_topics(topic, 10).topics[topic]
    left = set(told.partitions)
    consumer.assign([TopicPartition(topic, unit, 0) for unit in left])
    while left:
        for message in consumer.consume(500, 0.5):
            if (error := message.error()) is None:
                yield message.value() or b"", dict(message.headers() or ())
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    consumer.close()


def _declared(name: str, admitted: int) -> str:
    fields = json.dumps([[field.name, field.type] for field in FIELDS])
    return (
        f'[{name}]\ntopic = "{name}"\nadmitted = {admitted}\n\n'
        f'[{name}.stream]\ntime = "timestamp"\nlateness = 5.0\nidle = 3.0\nfields = {fields}\n\n'
        f'[{name}.queries]\nsums = "{SQL.format(name=name)}"\n'
    )
