"""How the tracker alone is declared, and what it is made of."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job import topics_of_stages
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import is_tracked, read_jobs, read_tracked_job, read_tracked_jobs
from springline.spark_jobs.streaming.runtime.report import RoundStatus, UnitReport
from springline.spark_jobs.streaming.runtime.stage import place_stages
from springline.spark_jobs.streaming.tracking.monitor import TrackingMonitor
from tests.support.commands import invoke
from tests.support.streams.declarations import written

TRACKER = '[orders]\nkind = "tracker"\n'
TICKS = '[ticks]\ntopic = "t"\n[ticks.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"]]\n'


def test_the_tracker_needs_no_topic_it_makes_the_one_that_clients_write_to(tmp_path: Path) -> None:
    """Before all else, with as many units as its table says."""
    job = read_tracked_job(written(tmp_path, f"{TRACKER}parallelism = 3\n"), "orders")
    assert (job.topic, dict(job.client_topics)) == ("orders.requests", {"orders.requests": 3})
    stages = place_stages(job.name, job.stages())
    assert {stage.topic for stage in stages} <= {*job.client_topics, *topics_of_stages(job)}
    assert {stage.name: stage.units for stage in stages} == {"intake": 3, "outcome": 2, "acker": 2}
    assert all(stage.make_step() for stage in stages)


def test_tracked_jobs_are_distinguished_by_what_they_have(tmp_path: Path) -> None:
    """No kind is named for it."""
    word_count = '[words]\nkind = "wordcount"\ntopic = "lines"\n'
    file = written(tmp_path, TRACKER + word_count + TICKS)
    assert set(read_tracked_jobs(file)) == {"orders", "words"}
    assert {name for name, job in read_jobs(file).items() if is_tracked(job)} == {"orders", "words"}


def test_a_root_has_one_try_for_the_ackers_and_they_emit_its_outcome(tmp_path: Path) -> None:
    """Of a job of ours they are what they were."""
    file = written(tmp_path, f'{TRACKER}[words]\nkind = "wordcount"\ntopic = "lines"\n')
    arguments = {
        name: next(stage.arguments for stage in job.stages() if stage.name == "acker")
        for name, job in read_tracked_jobs(file).items()
    }
    assert arguments["orders"] == {"timeout": 30.0, "max_attempts": 1, "layout": "slots", "outcomes": True}
    assert arguments["words"] == {"timeout": 30.0, "max_attempts": 5}


def test_commands_of_tracking_know_the_tracker_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say that offsets do not identify its roots."""
    for name, value in (("HOME", tmp_path), ("STREAMS_FILE", written(tmp_path, TRACKER))):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    assert json.loads(invoke("stream", "tracked", "--json").output) == [{"job": "orders", "state": "never started"}]
    assert "epoch 2 of the ring: ackers 0, 1" in invoke("stream", "acker", "add", "orders", "1").output
    error = invoke("stream", "wait", "orders").exception
    assert isinstance(error, StreamError) and "named by clients" in str(error)


@pytest.mark.parametrize(("kind", "is_paused"), [("tracker", True), ("wordcount", False)])
def test_time_stands_still_for_a_foreign_topology_while_its_acks_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_paused: bool
) -> None:
    """They come in by the first stage; that of a job of ours brings roots alone."""
    table = f'[orders]\nkind = "{kind}"\n' + ('topic = "t"\n' if kind == "wordcount" else "")
    job = read_tracked_job(written(tmp_path, table), "orders")
    folder = JobFolder(tmp_path)
    job.prepare(folder)
    stages = place_stages(job.name, job.stages())
    monkeypatch.setattr("springline.spark_jobs.streaming.tracking.monitor.time.time", lambda: 100.0)
    gauges = dict.fromkeys(
        (
            "in_flight", "completed", "audit_requests", "audited", "replay_requests", "retried", "forwarded",
            "adopted", "failed",
        ),
        0,
    )  # fmt: skip
    reports: dict[str, dict[int, UnitReport]] = {}
    for stage in stages:
        for unit in range(stage.units):
            lag, newest = (7, 20.0) if stage is stages[0] else (0, 0.0)
            reports.setdefault(stage.name, {})[unit] = UnitReport(
                unit,
                RoundStatus(
                    number=1, lag=lag, newest_timestamp=newest, ended_at=100.0, gauges={**gauges, "low_watermarks": {}}
                ),
            )
    oversight = TrackingMonitor(job.tracking, folder, stages, SimpleNamespace(reports=reports.get))  # type: ignore[arg-type]
    oversight._observe()
    assert oversight._observation.pause_reason == ("intake lags" if is_paused else "")
