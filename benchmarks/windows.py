"""Windowed statistics from Kafka to Kafka on two cores, broker included, beside what others make of the same rows."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import polars as pl

from benchmarks.report import Goal, Report
from services.jars import Jars
from services.java import find_java
from services.known import make_servers
from services.settings import ServiceSettings
from services.spare import beside
from services.supervisor import Supervisor
from spark_jobs.streaming.application import run_job
from spark_jobs.streaming.folder import JobFolder
from spark_jobs.streaming.inputs.feeding import send
from spark_jobs.streaming.inputs.flights import Due
from spark_jobs.streaming.inputs.flows import FIELDS, Flows, declared
from spark_jobs.streaming.jobs import Job
from spark_jobs.streaming.kafka import Cluster, Kafka
from spark_jobs.streaming.settings import StreamSettings
from spark_jobs.streaming.unitlog.report import Report as Reported
from spark_jobs.streaming.unitlog.versions import Versions
from spark_jobs.streaming.windows.stream import Form

_SIZE = 5_000  # rows in a message, the paper's best
_UNITS = 2
_PATIENCE = 300.0
_SQL = (
    "SELECT sip, type, count(*) AS n, sum(bytes) AS b, sum(packets) AS p FROM {} GROUP BY sip, type WINDOWING 60 s"
)  # fmt: skip
_PEER = "SELECT timestamp // 60 AS w, sip, type, count(*) AS n, sum(bytes) AS b, sum(packets) AS p FROM {} GROUP BY ALL"


@dataclass(frozen=True)
class Place:
    """Where the benchmark's servers and files are."""

    settings: ServiceSettings
    folder: Path

    @property
    def kafka(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.settings.kafka_port}"


@dataclass(frozen=True)
class Case:
    """A topic's content, and how a job reads it."""

    name: str
    form: Form
    flows: Flows
    size: int = _SIZE
    queries: Sequence[str] = (_SQL,)

    @property
    def topic(self) -> str:
        """A name that no other case has."""
        return f"{self.name}-{self.form}-{self.size}".replace(" ", "-")


def run(size: str) -> Report:
    """Each side in turn, so that a change of the machine's mood meets all."""
    rows, warm, turns = (8_000_000, 12_000_000, 2) if size == "full" else (1_600_000, 1_600_000, 1)
    plain, texts = Flows(warm + rows), Flows(warm + rows, general=True)
    many = Flows(warm + rows, sips=40_000, general=True)
    cases = [
        Case("keys", "arrow", plain),
        Case("keys", "csv", plain),
        Case("texts", "arrow", texts),
        Case("groups", "arrow", many),
    ]
    if size == "full":
        for each, share in ((1, 50), (10, 10), (100, 2), (1_000, 1), (50_000, 1)):
            cases.append(Case("keys", "arrow", Flows((warm + rows) // share), each))
    seen: dict[tuple[str, str, int], list[float]] = {}
    with place() as where:
        for case in cases:
            _feed(where, case)
        content = b"".join(Flows(rows).messages("csv", size=_SIZE))
        sides: list[tuple[tuple[str, str, int], Callable[[int], float]]] = [
            ((f"Springline, {case.name}", case.form, case.size), _ours(where, case, warm / (warm + rows)))
            for case in cases
        ]
        sides += [
            (("DuckDB, the bytes in memory", "csv", _SIZE), lambda turn: _duckdb(content, rows)),
            (("Polars, the bytes in memory", "csv", _SIZE), lambda turn: _polars(content, rows)),
            (("PySpark, its Kafka source", "csv", _SIZE), _pyspark(where, cases[1])),
        ]
        for turn in range(turns):
            for name, side in sides:
                if turn and name[2] != _SIZE:
                    continue  # the sizes of messages are compared once
                rate = side(turn)
                seen.setdefault(name, []).append(rate)
                print(f"{', '.join(map(str, name))}: {rate / 1e6:.2f} M rows/s", file=sys.stderr, flush=True)
    found = {name: median(rates) for name, rates in seen.items()}
    table = [
        {"side": name, "form": form, "rows a message": per, "M rows/s": round(found[name, form, per] / 1e6, 3),
         "least": round(min(rates) / 1e6, 3), "most": round(max(rates) / 1e6, 3)}
        for (name, form, per), rates in seen.items()
    ]  # fmt: skip
    return Report("windows", size, table, _goals(found), _remarks(rows, warm))


def _goals(found: dict[tuple[str, str, int], float]) -> list[Goal]:
    arrow, csv = found["Springline, keys", "arrow", _SIZE], found["Springline, keys", "csv", _SIZE]
    limit, spark = found["DuckDB, the bytes in memory", "csv", _SIZE], found["PySpark, its Kafka source", "csv", _SIZE]
    texts, groups = found["Springline, texts", "arrow", _SIZE], found["Springline, groups", "arrow", _SIZE]
    return [
        _at_least("Arrow, M rows/s", arrow / 1e6, 3.0),
        _at_least("CSV, M rows/s", csv / 1e6, 2.2),
        _at_least("Arrow against DuckDB's batch rate", arrow / limit, 0.75),
        _at_least("CSV against PySpark", csv / spark, 8.0),
        _at_least("general texts as keys, Arrow, M rows/s", texts / 1e6, 3.0),
        _at_least("400,000 groups against 10,000", groups / texts, 0.5),
    ]


def _at_least(goal: str, measured: float, wanted: float) -> Goal:
    return Goal(goal, round(measured, 2), f"at least {wanted:g}", measured >= wanted)


def _remarks(rows: int, warm: int) -> list[str]:
    return [
        f"{rows:,} rows of 25 fields (150 bytes of CSV, 90 of Arrow), 1,000 x 10 keys a minute unless said otherwise. "
        "The middle of the turns, with the least and the most.",
        f"Springline: two units and two reducers on the cores that the broker has too. {warm:,} rows warm it up; then "
        "until every reducer has taken the last partial. The rows lie in Kafka before. `texts` are keys of any length "
        "and form, `groups` 400,000 of them. With few rows a message there are fewer rows.",
        "DuckDB and Polars read CSV from memory with two threads, and group: no broker, no state, nothing to recover. "
        "PySpark: its Kafka source, `from_csv`, windows in RocksDB, results to Kafka; its first batch is left out.",
    ]


# ---- ours


def _ours(where: Place, case: Case, warm: float) -> Callable[[int], float]:
    def measured(turn: int) -> float:
        name = f"w{abs(hash(case.topic)) % 10**8}_{turn}_{os.getpid()}"
        stream = declared(case.form)
        queries = {f"q{number}": sql.format("flows") for number, sql in enumerate(case.queries)}
        per_round = max(1, min(1_600_000, case.flows.rows // 6) // case.size)
        job = Job(name, case.topic, stream, queries, reducers=_UNITS, admitted=per_round)
        settings = StreamSettings(
            home=where.folder / name, kafka=where.kafka, stream_state=where.folder / "state", stream_master="local[4,4]"
        )
        watch = _Watch(case.flows.rows, warm, JobFolder(settings.jobs_folder / name), where.folder / "state" / name)
        watch.start()
        run_job(job, settings)
        return watch.rate()

    return measured


class _Watch(threading.Thread):
    """Notes when a share `warm` of the rows, and when all of them, were through; then lets the job stop."""

    def __init__(self, rows: int, warm: float, folder: JobFolder, state: Path) -> None:
        super().__init__(daemon=True)
        self._rows = rows
        self._warm = warm
        self._folder = folder
        self._state = state
        self._marks: list[tuple[float, int]] = []

    def run(self) -> None:
        until = time.monotonic() + _PATIENCE
        last: int | None = None
        while time.monotonic() < until and not (last is not None and self._taken(last)):
            reports = self._mapped()
            mapped = sum(report.counts.get("rows", 0) for report in reports)
            if not self._marks and mapped >= self._rows * self._warm:
                self._marks.append((time.monotonic(), mapped))
            if last is None and mapped >= self._rows:
                last = max(report.round for report in reports)
            time.sleep(0.005)
        self._marks.append((time.monotonic(), mapped))
        self._folder.ask_to_stop()

    def rate(self) -> float:
        """Rows a second."""
        (begun, before), (ended, after) = self._marks
        if after < self._rows:
            raise RuntimeError(f"the job did not come to its end: {after:,} of {self._rows:,} rows were mapped")
        return (after - before) / (ended - begun)

    def _mapped(self) -> list[Reported]:
        found = (Reported.read(self._state / "map" / str(unit)) for unit in range(_UNITS))
        return [report for report in found if report is not None]

    def _taken(self, last: int) -> bool:
        """Whether every reducer has taken the last round with rows of every mapper."""
        for unit in range(_UNITS):
            versions = Versions(self._state / "reduce" / str(unit))
            newest = versions.newest()
            notes = versions.notes(*newest) if newest else None
            taken = (notes or {}).get("taken", {})
            if len(taken) < _UNITS or any(told[0] < last or not told[2] for told in taken.values()):
                return False
        return True


# ---- peers


def _duckdb(content: bytes, rows: int) -> float:
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".csv") as file:
        file.write(content)
        file.flush()
        kinds = {"int": "BIGINT", "float": "DOUBLE", "text": "VARCHAR"}
        columns = {field.name: kinds[field.type] for field in FIELDS}
        read = f"read_csv('{file.name}', header = false, columns = {columns}, auto_detect = false)"
        with duckdb.connect(config={"threads": 2}) as connection:
            begun = time.monotonic()
            connection.execute(_PEER.format(read)).to_arrow_table()
            return rows / (time.monotonic() - begun)


def _polars(content: bytes, rows: int) -> float:
    kinds: dict[str, Any] = {"int": pl.Int64, "float": pl.Float64, "text": pl.String}
    schema = {field.name: kinds[field.type] for field in FIELDS}
    begun = time.monotonic()
    frame = pl.scan_csv(io.BytesIO(content), has_header=False, schema=schema)
    keys = [(pl.col("timestamp") // 60).alias("w"), pl.col("sip"), pl.col("type")]
    frame.group_by(*keys).agg(pl.len(), pl.col("bytes").sum(), pl.col("packets").sum()).collect()
    return rows / (time.monotonic() - begun)


def _pyspark(where: Place, case: Case) -> Callable[[int], float]:
    """Spark's Kafka source, its own CSV reader and its own stateful windows, written to Kafka."""

    def measured(turn: int) -> float:
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        jars = sorted(Jars(where.settings).folder("spark-kafka").glob("*.jar"))
        paths = [str(jar) for jar in jars]
        conf = {
            "spark.jars": ",".join(paths),
            "spark.driver.extraClassPath": ":".join(paths),
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.stateStore.providerClass":
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        }  # fmt: skip
        session = SparkSession.builder.appName("peer").master("local[2]").config(map=dict(conf)).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        kinds = {"int": "bigint", "float": "double", "text": "string"}
        schema = ", ".join(f"{field.name} {kinds[field.type]}" for field in FIELDS)
        messages = case.flows.rows // case.size
        rows = (
            session.readStream.format("kafka").option("kafka.bootstrap.servers", where.kafka)
            .option("subscribe", case.topic).option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(max(messages // 10, 1))).load()
            .select(f.explode(f.split(f.col("value").cast("string"), "\n")).alias("line")).where("line != ''")
            .select(f.from_csv("line", schema).alias("r")).select("r.*")
            .select(f.timestamp_seconds("timestamp").alias("time"), "sip", "type", "bytes", "packets")
            .withWatermark("time", "0 seconds").groupBy(f.window("time", "60 seconds"), "sip", "type")
            .agg(f.count("*").alias("n"), f.sum("bytes").alias("b"), f.sum("packets").alias("p"))
            .select(f.to_json(f.struct("*")).alias("value"))
        )  # fmt: skip
        topic = f"peer-{turn}-{os.getpid()}"
        with closing(Kafka(Cluster(where.kafka))) as log:
            log.create({topic: _UNITS})
        query = (
            rows.writeStream.format("kafka").option("kafka.bootstrap.servers", where.kafka).option("topic", topic)
            .option("checkpointLocation", str(where.folder / topic)).outputMode("append")
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        batches = [each for each in query.recentProgress if each["numInputRows"]][1:]
        session.stop()
        spent = sum(each["durationMs"]["triggerExecution"] for each in batches) / 1000
        return float(sum(_messages_of(each) for each in batches) * case.size / spent)

    return measured


def _messages_of(progress: Any) -> int:
    """The messages of a batch, by its offsets: the number of rows that Spark tells counts what it exploded."""
    (source,) = progress["sources"]
    start, end = (json.loads(source[name] or "{}") for name in ("startOffset", "endOffset"))
    (topic,) = end
    return sum(int(end[topic][unit]) - int(start.get(topic, {}).get(unit, 0)) for unit in end[topic])


# ---- where


@contextmanager
def place() -> Iterator[Place]:
    """A broker of the benchmark's own, and a folder in memory; both go afterwards."""
    with tempfile.TemporaryDirectory(prefix="springline-bench-") as home, \
         tempfile.TemporaryDirectory(prefix="springline-bench-", dir="/dev/shm") as folder:  # fmt: skip
        settings = beside(Path(home))
        os.environ.update(find_java(os.environ, Path(home)).environment(os.environ.get("PATH", "")))
        supervisor = Supervisor(Path(home), say=lambda text: print(text, file=sys.stderr, flush=True))
        supervisor.up(make_servers(["kafka"], settings), 120)
        try:
            yield Place(settings, Path(folder))
        finally:
            supervisor.down("kafka", 5)


def _feed(where: Place, case: Case) -> None:
    with closing(Kafka(Cluster(where.kafka))) as log:
        log.create({case.topic: _UNITS})
        send(log, case.topic, (Due(0.0, value) for value in case.flows.messages(case.form, size=case.size)))
