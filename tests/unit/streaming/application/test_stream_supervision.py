"""When a job is waited for, started, restarted, and abandoned; and that there is one application of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from springline.spark_jobs.streaming.application.application import HeartbeatWriter, stop_if_abandoned
from springline.spark_jobs.streaming.application.status import SILENT_SECONDS, JobStatus, read_status
from springline.spark_jobs.streaming.application.supervision import (
    LEASE,
    Limits,
    SupervisorAction,
    decide_action,
    is_abandoned,
    kill_application,
    read_starts,
    record_start,
    renew_lease,
)
from springline.spark_jobs.streaming.errors import AlreadyRunningError, StreamError
from springline.spark_jobs.streaming.job_folder import JobFolder

HEARTBEAT = {"state": "running", "error": "", "heartbeat_at": 10.0, "started_at": 5.0, "pid": 1, "stages": {}}
LIMITS = Limits(restarts=2, window_seconds=100.0, silence_seconds=30.0)


def verdict(state: str, *, starts: tuple[float, ...] = (), **fields: object) -> SupervisorAction:
    """What is decided about a job in that state."""
    return decide_action(JobStatus("job", state, **fields), starts, 1000.0, LIMITS).action  # type: ignore[arg-type]


BEATING = {"started_at": 0.0, "heartbeat_at": 999.0}
JUST_ENDED = {"round_ended_at": 999.0, "paused": False}


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        ("never started", {}, SupervisorAction.START),
        ("failed", {}, SupervisorAction.START),
        ("dead", {}, SupervisorAction.START),
        ("dead", {"starts": (10.0, 20.0, 905.0, 910.0)}, SupervisorAction.START),  # those of long ago do not count
        ("dead", {"starts": (901.0, 905.0, 910.0)}, SupervisorAction.GIVE_UP),
        ("stopped", {}, SupervisorAction.START),
        ("stopped", {"starts": (990.0,)}, SupervisorAction.FINISHED),  # somebody stopped the job that this run started
        ("starting", {"started_at": 990.0}, SupervisorAction.WAIT),
        ("starting", {"started_at": 960.0}, SupervisorAction.RESTART),
        ("starting", {"started_at": 900.0, "heartbeat_at": 990.0}, SupervisorAction.WAIT),  # it restores states
        ("running", {**BEATING, "stages": {"map": JUST_ENDED}}, SupervisorAction.WAIT),
        ("running", {**BEATING, "stages": {"map": {"round_ended_at": 0.0, "paused": True}, "reduce": JUST_ENDED}},
         SupervisorAction.WAIT),
        ("silent", {"started_at": 0.0, "heartbeat_at": 960.0, "stages": {"map": JUST_ENDED}}, SupervisorAction.RESTART),
    ],
)  # fmt: skip
def test_the_state_of_a_job_decides_the_action(state: str, fields: dict[str, Any], expected: SupervisorAction) -> None:
    """A job without an application is started, in bounds; one that makes progress, or has nothing to do, is left."""
    assert verdict(state, **fields) is expected


@pytest.fixture
def leased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of a job whose lease is of a minute, and was renewed at second 100."""
    monkeypatch.setenv(LEASE, "60")
    folder = JobFolder(tmp_path / "job")
    folder.path.mkdir()
    renew_lease(folder)
    os.utime(folder.lease_file, (100.0, 100.0))
    return folder


def test_a_job_whose_lease_expired_is_restarted_by_its_run(leased: JobFolder) -> None:
    """Airflow's triggers were away for long, and no stop was requested."""
    beats = HeartbeatWriter("job", leased)
    stop_if_abandoned(beats, 159.0)
    assert not leased.stop_file.exists()
    stop_if_abandoned(beats, 161.0)
    assert leased.stop_file.exists()
    beats.write("stopped", beats.lapse_reason)
    decision = decide_action(read_status("job", leased, 170.0), (90.0,), 170.0, LIMITS)
    assert (decision.action, decision.reason) == (SupervisorAction.START, "its lease was not renewed")
    with pytest.raises(StreamError, match="its rounds do not end"):
        stop_if_abandoned(beats, 100.0 + 60.0 + 61.0)


def test_a_stopped_job_is_finished_though_its_lease_expires(leased: JobFolder) -> None:
    """The first request counts."""
    leased.request_stop()
    beats = HeartbeatWriter("job", leased)
    stop_if_abandoned(beats, 161.0)
    beats.write("stopped", beats.lapse_reason)
    assert decide_action(read_status("job", leased, 170.0), (90.0,), 170.0, LIMITS).action is SupervisorAction.FINISHED


def test_a_job_of_which_no_round_ends_is_ended_and_started_again() -> None:
    """A heartbeat alone is no sign of health, and one stage none of another's."""
    stages = {"map": {"round_ended_at": 969.0}, "reduce": {"round_ended_at": 999.0}}
    decision = decide_action(
        JobStatus("job", "running", started_at=0.0, heartbeat_at=999.0, stages=stages), (), 1000.0, LIMITS
    )
    assert decision.action is SupervisorAction.RESTART and decision.reason == "map has completed no round for 31 s"


@pytest.mark.parametrize(
    ("starts", "patience"), [((), 30.0), ((950.0,), 30.0), ((920.0, 950.0), 60.0), ((10.0, 950.0), 30.0)]
)
def test_one_that_was_started_again_lately_gets_more_time(starts: tuple[float, ...], patience: float) -> None:
    """On a machine that is too busy, ever more starts would be all that it does."""
    stages = {"map": {"round_ended_at": 0.0}}
    for longer, expected in ((-1.0, SupervisorAction.WAIT), (1.0, SupervisorAction.RESTART)):
        began = 1000.0 - patience - longer
        assert verdict("running", starts=starts, started_at=began, heartbeat_at=999.0, stages=stages) is expected


def test_starts_are_counted_for_each_run(tmp_path: Path) -> None:
    """Another run starts over."""
    folder = JobFolder(tmp_path / "job")
    record_start(folder, "a", 1.0)
    record_start(folder, "a", 2.0)
    assert read_starts(folder, "a") == [1.0, 2.0] and read_starts(folder, "b") == []


def test_one_application_holds_a_job(tmp_path: Path) -> None:
    """A second one is refused, and who looks disturbs neither."""
    folder = JobFolder(tmp_path / "job")
    assert not folder.is_running()
    with folder.application_lock():
        assert JobFolder(tmp_path / "job").is_running()
        with pytest.raises(AlreadyRunningError, match="job"), JobFolder(tmp_path / "job").application_lock():
            pass
    assert not folder.is_running()


def test_an_application_that_loads_its_code_is_starting_and_can_be_ended(tmp_path: Path) -> None:
    """It holds no lock yet, and has reported nothing: what the one before reported is not about it."""
    folder = JobFolder(tmp_path / "job")
    with folder.application_lock():
        heartbeat = {**HEARTBEAT, "stages": {"map": {"round_ended_at": 9.0}}}
        folder.write_heartbeat(heartbeat)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        folder.record_launch(process.pid)
        now = time.time()
        status = read_status("job", folder, now)
        assert (status.state, status.pid) == ("starting", process.pid) and abs((status.started_at or 0.0) - now) < 60
        assert decide_action(status, (), now, LIMITS).action is SupervisorAction.WAIT
        assert decide_action(status, (), now + 100, LIMITS).action is SupervisorAction.RESTART
        folder.write_heartbeat({**heartbeat, "started_at": now + 1})
        assert read_status("job", folder, now).state == "dead"
        folder.write_heartbeat(heartbeat)
        kill_application(status, folder)
        assert process.wait(timeout=10) < 0
        assert read_status("job", folder, now).state == "dead"
    finally:
        process.kill()
        process.wait()


def test_another_process_with_the_same_id_is_not_the_one_that_was_started(tmp_path: Path) -> None:
    """Ids come again, after a restart of the machine above all."""
    folder = JobFolder(tmp_path / "job")
    folder.record_launch(os.getpid())
    assert folder.starting_process() is not None
    launch = json.loads((folder.path / "launched.json").read_text())
    launch["value"]["started_at"] -= 1
    (folder.path / "launched.json").write_text(json.dumps(launch))
    assert folder.starting_process() is None and read_status("job", folder, 0.0).state == "never started"


def test_what_a_job_said_last_counts_only_while_it_lives(tmp_path: Path) -> None:
    """A heartbeat of a process that was killed is no life."""
    folder = JobFolder(tmp_path / "job")
    assert read_status("job", folder, 0.0).state == "never started"
    with folder.application_lock():
        folder.write_heartbeat(HEARTBEAT)
        assert read_status("job", folder, 11.0).state == "running"
        assert read_status("job", folder, 11.0 + SILENT_SECONDS).state == "silent"
    assert read_status("job", folder, 11.0).state == "dead"


def test_one_without_a_renewed_lease_is_abandoned(leased: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a supervisor has none, and lives on."""
    assert not is_abandoned(leased, 159.0) and is_abandoned(leased, 161.0)
    leased.lease_file.unlink()
    assert is_abandoned(leased, 159.0), "its home was removed"
    monkeypatch.delenv(LEASE)
    assert not is_abandoned(leased, 10_000.0)


def test_the_log_of_one_that_hangs_shows_where(tmp_path: Path) -> None:
    """Of every process of it, those that know nothing of that too; then it is killed."""
    folder = JobFolder(tmp_path / "job")
    code = """
import subprocess, sys, time
from springline.spark_jobs.streaming.runtime.thread_dump import dump_stacks_on_signal
def hangs_here(): time.sleep(600)
dump_stacks_on_signal()
if sys.argv[1:] != ["below"]:
    subprocess.Popen([sys.executable, __file__, "below"])
    subprocess.Popen(["sleep", "600"])
print("begun", flush=True)
hangs_here()
"""
    (tmp_path / "hanging.py").write_text(code)
    with (tmp_path / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, tmp_path / "hanging.py"], start_new_session=True, stdout=log, stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    try:
        folder.record_launch(process.pid)
        deadline = time.monotonic() + 60
        while (tmp_path / "log").read_text().count("begun") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        kill_application(read_status("job", folder, time.time()), folder)
        assert process.wait(timeout=10) == -signal.SIGKILL
        assert (tmp_path / "log").read_text().count("in hangs_here") == 2
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("ends", [True, False])
def test_an_application_ends_in_time_though_what_it_closes_hangs(ends: bool) -> None:
    """With all that it has started; one that ends is let go."""
    code = f"""
import subprocess, sys, time
from springline.spark_jobs.streaming.application.deadline import Deadline
with Deadline(0.5) as deadline:
    with deadline.after():
        below = subprocess.Popen(["sleep", "600"])
        print(below.pid, flush=True)
        time.sleep(1)
    {"below.kill()" if ends else "time.sleep(600)"}
time.sleep(1)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], start_new_session=True, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert process.returncode == (0 if ends else -signal.SIGKILL)
    assert not psutil.pid_exists(int(process.stdout)) or psutil.Process(int(process.stdout)).status() == "zombie"
