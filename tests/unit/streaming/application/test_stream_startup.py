"""Waiting for an application until it works: as long as it makes progress, and reported what for."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from springline.spark_jobs.streaming.application.application import HeartbeatWriter
from springline.spark_jobs.streaming.application.startup import Startup, start_and_wait
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.application.supervision import Limits, decide_action
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.report import RoundStatus, UnitReport
from springline.spark_jobs.streaming.runtime.stage import Stage

STARTING = JobStatus("job", "starting", started_at=100.0, heartbeat_at=100.0, pid=7, phase="starting Spark on local[8]")
STAGES = {"map": {"round": 0, "round_ended_at": 0.0}, "reduce": {"round": 3, "round_ended_at": 101.0}}
RUNNING = JobStatus("job", "running", started_at=100.0, heartbeat_at=100.0, pid=7, stages=STAGES)


def test_a_start_that_gets_on_is_waited_for_however_long_it_takes() -> None:
    """Each phase, and each round, is progress; it may be silent for a moment, as the machine is busy."""
    startup = Startup(timeout=60.0)
    assert startup.wait_for(STARTING, 0.0) == "starting Spark on local[8]"
    assert startup.wait_for(replace(STARTING, state="silent"), 59.0).startswith("starting Spark")
    waiting_status = replace(STARTING, phase="waiting for executors: Spark runs 1 tasks at once, 4 are needed")
    assert startup.wait_for(waiting_status, 118.0).startswith("waiting for executors")
    assert startup.wait_for(RUNNING, 177.0) == "it runs; waiting for the first round of map"
    later_stages = {**STAGES, "reduce": {"round": 4, "round_ended_at": 102.0}}
    assert startup.wait_for(replace(RUNNING, stages=later_stages), 236.0)
    final_stages = {**later_stages, "map": {"round": 1, "round_ended_at": 103.0}}
    assert startup.wait_for(replace(RUNNING, stages=final_stages), 1000.0) == ""


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (STARTING, "starting Spark on local.8., without progress for 61 s"),
        (RUNNING, "it runs; waiting for the first round of map, without progress for 61 s"),
    ],
)
def test_a_start_without_progress_is_abandoned_with_what_it_waits_for(status: JobStatus, message: str) -> None:
    """An application that beats and gets no further is silent in that sense too."""
    startup = Startup(timeout=60.0)
    startup.wait_for(status, 0.0)
    startup.wait_for(replace(status, heartbeat_at=160.0), 60.0)
    with pytest.raises(StreamError, match=message):
        startup.wait_for(replace(status, heartbeat_at=161.0), 61.0)


def test_an_application_that_has_ended_is_not_waited_for() -> None:
    """Once that was seen twice: between two of its files it may seem so for a moment."""
    startup, failed = Startup(timeout=60.0), JobStatus("job", "failed", "ticks does not exist at 127.0.0.1:9092")
    startup.wait_for(failed, 0.0)
    startup.wait_for(STARTING, 0.2)
    startup.wait_for(failed, 0.4)
    with pytest.raises(StreamError, match="it has ended: ticks does not exist at"):
        startup.wait_for(failed, 0.6)


def test_a_process_that_ends_before_its_first_heartbeat_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    """What the application before it has reported is not its error."""
    folder = JobFolder(tmp_path / "job")
    with folder.application_lock():
        folder.write_heartbeat(
            {"state": "failed", "error": "old", "heartbeat_at": 2.0, "started_at": 1.0, "pid": 1, "stages": {}}
        )
    folder.log_file.write_text("old line\n")

    def launch(job: str, folder: JobFolder) -> None:
        with folder.log_file.open("a") as log:
            code = "raise SystemExit('no module named pyspark')"
            process = subprocess.Popen([sys.executable, "-c", code], stderr=log, start_new_session=True)
        folder.record_launch(process.pid)
        process.wait()

    with pytest.raises(StreamError) as raised:
        start_and_wait("job", folder, 60.0, print, launch)
    message = (
        f"job: it has ended: it has ended before its first heartbeat; log: "
        f"{folder.log_file}, last line: no module named pyspark"
    )
    assert str(raised.value) == message


def test_what_an_application_does_while_it_starts_is_in_its_heartbeat(tmp_path: Path) -> None:
    """Its status says so, and who supervises it; one that runs has no phase any more."""
    folder = JobFolder(tmp_path / "job")
    with folder.application_lock():
        beats = HeartbeatWriter("job", folder)
        beats.begin_phase("starting Spark on local[8]")
        status = read_status("job", folder, time.time())
        assert (status.state, status.phase) == ("starting", "starting Spark on local[8]")
        assert decide_action(status, (), time.time(), Limits()).reason == "it is starting: starting Spark on local[8]"
        decision = decide_action(status, (), time.time() + 500, Limits())
        assert "no heartbeat (starting Spark on local[8]) for 5" in decision.reason
        beats.write("running")
        status = read_status("job", folder, time.time())
        assert status.phase == "" and [phase.name for phase in status.start] == ["starting Spark on local[8]"]


def test_a_start_takes_the_seconds_of_its_phases_until_each_stage_has_a_round(tmp_path: Path) -> None:
    """What was waited for afterwards is not counted; one that starts again in its process has phases of its own."""
    folder, stage = JobFolder(tmp_path / "job"), Stage("map", "", "rows", job="job")
    report = UnitReport(0, RoundStatus(number=1, ended_at=time.time()))
    reports: Any = SimpleNamespace(reports=lambda _: {0: report})
    with folder.application_lock():
        beats = HeartbeatWriter("job", folder, (stage,), started_at=5.0, phases=[("loading its code", 3.0)])
        beats.begin_phase("running the first round")
        beats.reports = reports
        beats.write("running")
        beats.write("running")
        loading, running = read_status("job", folder, time.time() + 100).start
        assert loading.seconds > 1e9 and 0 <= running.seconds < 50
        beats.begin_phase("partitions were added to its topic")
        status = read_status("job", folder, time.time())
        assert status.phase == "partitions were added to its topic" and len(status.start) == 1
