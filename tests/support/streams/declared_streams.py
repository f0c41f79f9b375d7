"""Stream jobs as whoever looks sees them, without applications: declared, with folders, states and topics, and beating.

Each health occurs: `ticks` has windows and a slow reducer, so it lags; `words` is tracked, gave records up, and is ok;
`pairs` is a join that was stopped; `crashed` has failed, `stuck` completes no round, `fresh` is starting, and no one
has ever started `never`.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from springline.persistence.engine.runner import NoRunner
from springline.persistence.platform import open_platform
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.application.health import running_health
from springline.spark_jobs.streaming.application.lag_history import (
    FILE,
    INTERVAL_SECONDS,
    SLOTS,
    LagSample,
    write_sample,
)
from springline.spark_jobs.streaming.checkpoints.store import CheckpointStore
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_jobs
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.runtime.message_log import MessageLog, OutgoingRecord, RoundId
from springline.spark_jobs.streaming.runtime.report import RoundStatus, UnitReport
from springline.spark_jobs.streaming.runtime.stage import Stage, place_stages
from springline.spark_jobs.streaming.runtime.stamps import Stamp
from springline.spark_jobs.streaming.runtime.state_folders import StateFolders
from springline.spark_jobs.streaming.runtime.state_store import StateSnapshot, StateStore
from springline.spark_jobs.streaming.runtime.step import State
from springline.spark_jobs.streaming.runtime.worker.state_server import StateServer
from springline.spark_jobs.streaming.runtime.worker.unit import StageWorker
from tests.support.decoding.windows_job import Job, csv, registry, stream
from tests.support.joins.pairs import PAIRS, widened

SQL = "SELECT kind, count(*) AS n, avg(load) AS load FROM ticks GROUP BY kind WINDOWING 60 s"
DECLARED = f"""
[ticks]
topic = "ticks"
backpressure = "predictive"
[ticks.stream]
time = "time"
adhoc_retention = 3600.0
fields = [["time", "timestamp(s)"], ["sip", "text"], ["kind", "text"], ["bytes", "int"], ["load", "float"]]
[ticks.queries]
kinds = "{SQL}"

[words]
kind = "wordcount"
topic = "lines"
[words.tracking]
ackers = 2
max_ackers = 2
{PAIRS}
[never]
kind = "wordcount"
topic = "lines"

[crashed]
kind = "wordcount"
topic = "lines"

[stuck]
kind = "wordcount"
topic = "lines"

[fresh]
kind = "wordcount"
topic = "lines"
"""
JOBS = ("crashed", "stuck", "ticks", "fresh", "words", "pairs", "never")  # the worst health first
TOPICS = {"ticks.results": 1, "words.dead-letters": 1, "ticks.dead-letters": 1, "ticks": 1, "lines": 2}
HOSTILE = "<img src=x onerror=alert(1)><script>document.title=1</script>"
BEGAN = 1_700_000_040  # 2023-11-14 22:14:00, a whole minute: the first window of results
KINDS = ("tcp", "udp", "icmp")
WINDOWS = 60
HEARTBEAT_SECONDS = 1.0


def declare(file: Path) -> None:
    """Write the file that declares them."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(DECLARED)


def put_results(log: MessageLog) -> None:
    """An hour of windows of `ticks`, three kinds each, and two records of `words` that were abandoned."""
    records = []
    for number in range(WINDOWS):
        begin, end = (_utc(BEGAN + 60 * at) for at in (number, number + 1))
        rows = [
            {"query": "kinds", "window_start": begin, "window_end": end, "kind": kind,
             "n": round(400 / (1 + place) * (1.3 + math.sin(number / (5 + place)))), "load": 0.5 + place}
            for place, kind in enumerate(KINDS)
        ]  # fmt: skip
        lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
        stamp = Stamp(1, 0, number + 1, 0).header()
        records.append(OutgoingRecord("ticks.results", 0, lines, {**stamp, "query": b"kinds"}))
    for offset, content in ((3, "a line that no unit could count"), (650, HOSTILE)):
        place = {
            "topic": b"lines", "partition": b"1", "offset": str(offset).encode(),
            "reason": b"row 0: sent 5 times, never through",
        }  # fmt: skip
        records.append(OutgoingRecord("words.dead-letters", 0, content.encode(), place))
    for offset, content in ((17, b"2013-01-05 10:00,x,tcp,many,0.5"), (18, b"\xff\xfe\x00")):
        place = {
            "topic": b"ticks", "partition": b"0", "offset": str(offset).encode(),
            "reason": b"row 0: the column bytes: 'many' is no integer", **Stamp(1, 0, 3, offset).header(),
        }  # fmt: skip
        records.append(OutgoingRecord("ticks.dead-letters", 0, content, place))
    with log.record_sender() as sending:
        for letter in records:
            sending.send(letter)


def serve_slices(declarations: Path, cluster: Cluster, scratch: Path) -> None:
    """Answer ad hoc queries as the reducers of `ticks` do after a round with rows of an hour."""
    ran = Job(registry({"kinds": SQL}, stream(name="ticks", adhoc_retention=3600.0)), reducers=4, stream_name="ticks")
    ran.round([csv(*((BEGAN + 9 * n, "x", KINDS[n % 3], n, n / 100) for n in range(400)))])
    _, reducing = place_stages("ticks", read_jobs(declarations)["ticks"].stages())
    with closing(Kafka(cluster)) as log:
        log.create(dict.fromkeys((reducing.reports, reducing.state_requests, reducing.state_replies), 1))
        worker = StageWorker(reducing, StateFolders(scratch), log)
        reports = [UnitReport(unit, RoundStatus(number=1)) for unit in range(4)]
        with log.record_sender() as sending:
            for report in reports:
                worker.states.store(report.unit).save(StateSnapshot(1, 0), ran.states["reduce", report.unit], (1, 1))
                worker.resume(report.unit, report)
                sending.send(OutgoingRecord(reducing.reports, 0, report.encode(), key=report.key))
    StateServer(worker, reducing.load_state_query(), lambda: Kafka(cluster)).serve(range(4))


def save_states(stage: Stage, states: Sequence[State], round_id: RoundId, scratch: Path) -> None:
    """Save the states of a stage's units as checkpoints, as its tasks do before the job ends."""
    with closing(open_platform(Settings(), runner=NoRunner())) as platform:
        for unit, state in enumerate(states):
            store = StateStore(scratch / stage.name / str(unit))
            store.save(StateSnapshot(*round_id), state, round_id, {"offsets": {}})
            CheckpointStore(platform).save(stage, unit, store, round_id)


def explain_pairs(folder: JobFolder, scratch: Path) -> None:
    """What a join reports that has a heavy key, and went from two units to three."""
    widened(folder, scratch, 300, max_imbalance=0.02)
    folder.write_heartbeat(
        heartbeat("stopped", {"route": _stage(31, 4, rows=600), "join": _stage(31, 4, results=22_650)})
    )


def _stage(number: int, units: int, **counts: int) -> dict[str, Any]:
    return {"units": units, "round": number, "round_ended_at": time.time() - 0.3, "counts": counts,
            "state_bytes": 4_200_000, "task_memory": 210_000_000, "seconds": 0.082, "newest_timestamp": 0.0, "lag": 0,
            "watermark": None}  # fmt: skip


def heartbeat(state: str, stages: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A heartbeat of now."""
    now = time.time()
    times = {"heartbeat_at": now, "started_at": now - 4000}
    return {"state": state, "error": "", **times, "pid": 4711, "stages": stages, **more}


def ticks_heartbeat(number: int) -> dict[str, Any]:
    """A heartbeat of `ticks`, whose reducers are slow."""
    throttle = {"downstream": "reduce", "upstream": "map", "since": time.time() - 42, "throttle_level": 0,
                "rate": 2.1e6, "reason": "its queue is 1.4 s of its work, 0.22 s are wanted"}  # fmt: skip
    mapping = {
        "state": "throttled", "queue": 48_200_000, "not_admitted": 48_000_000, "seconds": 23.0, "rate": 2.1e6,
        "capacity": 9e6, "arriving": 3.4e6, "applied": 2.1e6, "throttled_by": [throttle], "throttles": [],
    }  # fmt: skip
    reducing = {
        "state": "overloaded", "queue": 2_900_000, "not_admitted": 1_100_000, "seconds": 1.4, "rate": None,
        "capacity": 2.1e6, "arriving": 2.1e6, "applied": 2.0e6, "throttled_by": [], "throttles": [throttle],
    }  # fmt: skip
    stages = {"map": {**_stage(number, 1, rows=1_234_567 + 9_000 * number, late=12, dead_letters=2), "lag": 4_810,
                      "watermark": time.time() - 31},
              "reduce": {**_stage(number - 1, 4, results=180), "watermark": time.time() - 33}}  # fmt: skip
    pressed = {"mode": "predictive", "signal_channel": None, "stages": {"map": mapping, "reduce": reducing}}
    return with_health(heartbeat("running", stages, backpressure=pressed), since=time.time() - 1_260)


def with_health(job_heartbeat: dict[str, Any], since: float) -> dict[str, Any]:
    """A heartbeat with the health that its job decides, since then."""
    decided = running_health(job_heartbeat, job_heartbeat["heartbeat_at"])
    return {**job_heartbeat, "health": replace(decided, since=since).as_json()}


def words_heartbeat(number: int) -> dict[str, Any]:
    """A heartbeat of `words`, with records in flight."""
    ackers = [{"acker": unit, "in_flight": 20 + unit, "completed": 28_000 + 40 * number, "epoch": 2} for unit in (0, 1)]
    tracking = {"in_flight": 41, "completed": 56_000 + 80 * number, "retried": 12, "failed": 2, "bytes": 2_000_000,
                "source_paused": False, "pause_reason": "", "low_watermarks": {"0": 700, "1": 800}, "ackers": ackers,
                "seconds": {"p50": 0.091, "p90": 0.1, "p99": 0.42}}  # fmt: skip
    free = {"state": "normal", "not_admitted": 0, "rate": None, "capacity": 8e6, "arriving": 1.1e6, "applied": 1.1e6,
            "throttled_by": [], "throttles": []}  # fmt: skip
    names = {"split": 0.12, "retry": 0.0, "count": 0.2, "acker": 0.05}
    pressed = {name: {**free, "queue": round(8e6 * seconds), "seconds": seconds} for name, seconds in names.items()}
    stages = {name: _stage(number, 2, **({"retried": 12, "failed": 2} if name == "retry" else {})) for name in names}
    stages["split"]["counts"] = {"rows": 56_100}
    job_heartbeat = heartbeat("running", stages, tracking=tracking, backpressure={"mode": "off", "stages": pressed})
    return with_health(job_heartbeat, since=time.time() - 3_900)


def stuck_heartbeat(number: int) -> dict[str, Any]:
    """A heartbeat of `stuck`, whose counters are still at a round of a while ago."""
    counting = {**_stage(87, 2, results=9_000), "round_ended_at": time.time() - 190, "lag": 120}
    job_heartbeat = heartbeat("running", {"split": _stage(number, 2, rows=9_000), "count": counting})
    return {**job_heartbeat, "health": running_health(job_heartbeat, job_heartbeat["heartbeat_at"]).as_json()}


def fresh_heartbeat(number: int) -> dict[str, Any]:
    """A heartbeat of `fresh`, which waits for Spark."""
    now = time.time()
    phases = [["loading its code", now - 9], ["starting Spark on local[8]", now - 6]]
    return {**heartbeat("starting", {}), "started_at": now - 6, "phases": phases, "ready_at": 0.0}


def put_history(folder: JobFolder, rows_per_second: float, lag: float) -> None:
    """An hour of a job's lag and throughput, which swing around these, with three minutes in which it did not run."""
    now = time.time()
    folder.make()
    for number in range(SLOTS):
        if 200 <= number < 218:
            continue
        swing = 1 + 0.3 * math.sin(number / 11) * math.cos(number / 37)
        end = max(0.0, number - 300) / 59  # of the hour, towards which the curves come to rest
        grown = lag * max(0.0, (number - 150) / 209) * (swing * (1 - end) + end)
        rows = rows_per_second * INTERVAL_SECONDS * (number + 3 * math.sin(number / 9))
        at = now - (SLOTS - number) * INTERVAL_SECONDS
        sample = LagSample(at, round(grown), 23.0 * grown / lag if lag else 0.0, round(rows), 2e6 * swing, 3)
        write_sample(folder.path / FILE, sample)


def crash(folder: JobFolder) -> None:
    """Leave what an application leaves that fails."""
    error = "lines: Kafka at 127.0.0.1:9092 does not answer: Connection refused"
    folder.make()
    folder.write_heartbeat({**heartbeat("failed", {"split": _stage(12, 2, rows=480)}), "error": error})


@contextmanager
def beating(home: Path) -> Iterator[None]:
    """Let the jobs that run do so as far as anybody sees, and beat, until the context ends."""
    by_job = {"ticks": ticks_heartbeat, "words": words_heartbeat, "stuck": stuck_heartbeat, "fresh": fresh_heartbeat}
    heartbeats = {JobFolder(home / "streams" / job): make for job, make in by_job.items()}
    crash(JobFolder(home / "streams" / "crashed"))
    put_history(JobFolder(home / "streams" / "ticks"), 900.0, 4_810)
    put_history(JobFolder(home / "streams" / "words"), 80.0, 0)
    over = threading.Event()

    def go_on() -> None:
        number = 100
        while True:
            for folder, make in heartbeats.items():
                folder.write_heartbeat(make(number))
            number += 1
            if over.wait(HEARTBEAT_SECONDS):
                return

    with ExitStack() as leaving:
        for folder in heartbeats:
            leaving.enter_context(folder.application_lock())
        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        leaving.callback(thread.join)
        leaving.callback(over.set)
        yield


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(seconds))
