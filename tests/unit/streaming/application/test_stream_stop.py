"""Jobs are stopped together; one that does not come to rest is ended by force, with all that it started, alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from springline.spark_jobs.streaming.application import stop
from springline.spark_jobs.streaming.application.process_family import is_alive
from springline.spark_jobs.streaming.application.stop import end_by_force, running_folders, stop_all
from springline.spark_jobs.streaming.job_folder import JobFolder
from tests.support.streams.plain_application import start_application

Started = Callable[[str, str], tuple[JobFolder, list[psutil.Process]]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Starts the application of a job that obeys the request to stop, SIGTERM alone, or nothing; with its processes."""
    running: list[subprocess.Popen[bytes]] = []

    def start(job: str, obeys: str) -> tuple[JobFolder, list[psutil.Process]]:
        process, processes = start_application(folder := JobFolder(tmp_path / job), obeys)
        running.append(process)
        return folder, processes

    yield start
    for process in running:
        process.kill()
        process.wait()


@contextmanager
def sleeping_process(*, start_new_session: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A process that obeys SIGTERM alone; it is killed in the end."""
    code = "import time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=start_new_session) as process:
        yield process
        process.kill()


def test_a_job_that_is_slow_to_stop_does_not_keep_the_others(started: Started) -> None:
    """All are asked at once, and each is reported when it has stopped; what lives when the patience is over is left."""
    (slow, (application, _)), (quick, _) = started("a-slow", "nothing"), started("b-quick", "the request")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        application.kill()

    assert stop_all([slow], 0.0, lines.append) == [slow] == running_folders([slow]) and lines == []
    assert stop_all([slow, quick], 600.0, say) == []
    assert lines == ["b-quick: stopped", "a-slow: ended, dead"]


@pytest.mark.parametrize(("obeys", "signals"), [("SIGTERM", ["SIGTERM"]), ("nothing", ["SIGTERM", "SIGKILL"])])
def test_a_job_that_does_not_come_to_rest_is_ended_with_all_that_it_started(
    started: Started, obeys: str, signals: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SIGTERM, then SIGKILL, each with a line; workers have a group of their own, and the scratch folder goes."""
    monkeypatch.setattr(stop, "TERMINATE_SECONDS", 0.5 if obeys == "nothing" else 60.0)
    folder, processes = started("stubborn", obeys)
    lines: list[str] = []
    assert end_by_force([folder], lines.append) == []
    assert [line.split("; ")[1].split()[0] for line in lines] == signals
    assert all(f"stubborn: has not ended; {name} to process group {processes[0].pid}" in line
               for name, line in zip(signals, lines, strict=True))  # fmt: skip
    assert not any(is_alive(process) for process in processes) and not folder.scratch.exists()


def test_an_application_that_loads_its_code_is_stopped_too(tmp_path: Path) -> None:
    """It holds no lock yet, and would have started to run after all else had ended."""
    folder = JobFolder(tmp_path / "coming")
    with sleeping_process(start_new_session=True) as process:
        folder.record_launch(process.pid)
        assert stop_all([folder], 0.0, print) == [folder]
        assert end_by_force([folder], print) == []
        assert process.wait(10) == -signal.SIGTERM


def test_who_shares_a_group_with_an_application_lives_on(tmp_path: Path) -> None:
    """One that a script has started in its own group: the script, and this test, are not it."""
    folder = JobFolder(tmp_path / "shared")
    with sleeping_process(start_new_session=False) as process:
        assert os.getpgid(process.pid) == os.getpgid(0)
        folder.record_launch(process.pid)
        assert end_by_force([folder], print) == []
        assert process.wait(10) == -signal.SIGTERM


def test_a_process_that_got_the_id_of_an_application_is_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the heartbeat of the one before names started later."""
    monkeypatch.setattr(stop, "TERMINATE_SECONDS", 0.0)
    monkeypatch.setattr(stop, "KILLED_SECONDS", 0.0)
    folder = JobFolder(tmp_path / "job")
    with sleeping_process(start_new_session=True) as stranger:
        began = psutil.Process(stranger.pid).create_time() - 100
        times = {"heartbeat_at": time.time(), "started_at": began}
        with folder.application_lock():
            folder.write_heartbeat({"state": "running", "error": "", "pid": stranger.pid, "stages": {}, **times})
            assert end_by_force([folder], print) == [folder]
        assert stranger.poll() is None
