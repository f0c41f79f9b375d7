"""Waiting for an application until it works: as long as it gets on, and told what for."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.application.application import HeartbeatWriter
from springline.spark_jobs.streaming.application.startup import Startup, start_and_wait
from springline.spark_jobs.streaming.application.status import JobStatus, read_status
from springline.spark_jobs.streaming.application.supervision import Limits, decide_action
from springline.spark_jobs.streaming.errors import StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder

STARTING = JobStatus(
    "job", "starting", started_at=100.0, heartbeat_at=100.0, pid=7, phase="Spark is being started on local[8]"
)
STAGES = {"map": {"round": 0, "at": 0.0}, "reduce": {"round": 3, "at": 101.0}}
RUNNING = JobStatus("job", "running", started_at=100.0, heartbeat_at=100.0, pid=7, stages=STAGES)


def test_a_start_that_gets_on_is_waited_for_however_long_it_takes() -> None:
    """Each phase, and each round, is progress; it may be silent for a moment, as the machine is busy."""
    startup = Startup(timeout=60.0)
    assert startup.wait_for(STARTING, 0.0) == "starting: Spark is being started on local[8]"
    assert startup.wait_for(replace(STARTING, state="silent"), 59.0).startswith("starting: Spark")
    waits = replace(STARTING, phase="executors are waited for: Spark runs 1 tasks at once, and 4 are wanted")
    assert startup.wait_for(waits, 118.0).startswith("starting: executors are waited for")
    assert startup.wait_for(RUNNING, 177.0) == "it runs, and the first round of map has not ended"
    further = {**STAGES, "reduce": {"round": 4, "at": 102.0}}
    assert startup.wait_for(replace(RUNNING, stages=further), 236.0)
    works = {**further, "map": {"round": 1, "at": 103.0}}
    assert startup.wait_for(replace(RUNNING, stages=works), 1000.0) == ""


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (STARTING, "starting: Spark is being started on local.8., and nothing has changed for 61 s"),
        (RUNNING, "it runs, and the first round of map has not ended, and nothing has changed for 61 s"),
    ],
)
def test_a_start_that_does_not_get_on_is_given_up_with_what_it_waits_for(seen: JobStatus, told: str) -> None:
    """An application that beats and gets no further is silent in that sense too."""
    startup = Startup(timeout=60.0)
    startup.wait_for(seen, 0.0)
    startup.wait_for(replace(seen, heartbeat_at=160.0), 60.0)
    with pytest.raises(StreamError, match=told):
        startup.wait_for(replace(seen, heartbeat_at=161.0), 61.0)


def test_an_application_that_has_ended_is_not_waited_for() -> None:
    """Once that was seen twice: between two of its files it may seem so for a moment."""
    startup, failed = Startup(timeout=60.0), JobStatus("job", "failed", "ticks is not there at 127.0.0.1:9092")
    startup.wait_for(failed, 0.0)
    startup.wait_for(STARTING, 0.2)
    startup.wait_for(failed, 0.4)
    with pytest.raises(StreamError, match="it has ended: ticks is not there at"):
        startup.wait_for(failed, 0.6)


def test_a_process_that_ends_before_it_tells_anything_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    """What the application before it has told is not its error."""
    folder = JobFolder(tmp_path / "job")
    with folder.application_lock():
        folder.write_heartbeat(
            {"state": "failed", "error": "old", "at": 2.0, "started_at": 1.0, "pid": 1, "stages": {}}
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
    told = (
        f"job: it has ended: before it told anything; its log: {folder.log_file}, which ends: no module named pyspark"
    )
    assert str(raised.value) == told


def test_what_an_application_does_while_it_starts_is_in_its_heartbeat(tmp_path: Path) -> None:
    """Whoever looks at it is told, and who supervises it; one that runs has no phase any more."""
    folder = JobFolder(tmp_path / "job")
    with folder.application_lock():
        beats = HeartbeatWriter("job", folder)
        beats.begin_phase("Spark is being started on local[8]")
        seen = read_status("job", folder, time.time())
        assert (seen.state, seen.phase) == ("starting", "Spark is being started on local[8]")
        assert (
            decide_action(seen, (), time.time(), Limits()).reason
            == "it is starting: Spark is being started on local[8]"
        )
        stuck = decide_action(seen, (), time.time() + 500, Limits())
        assert "it has not beaten (Spark is being started on local[8]) for 5" in stuck.reason
        beats.write("running")
        assert read_status("job", folder, time.time()).phase == ""
