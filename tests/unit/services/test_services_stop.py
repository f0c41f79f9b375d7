"""`make stop`: what is slow to stop, or cannot be inspected, keeps nothing else running; the exit status shows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from springline.persistence.private_files import default_cache_folder
from springline.services.server import Process, Server
from springline.services.settings import ServiceSettings
from springline.services.stop import Home, stop_all_profiles, stop_home, stop_order
from springline.services.supervisor import Supervisor
from springline.spark_jobs.streaming.application.process_family import is_alive
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.settings import StreamSettings
from tests.support.streams.plain_application import start_application

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN); pathlib.Path(sys.argv[1]).touch()"
STUBBORN = (sys.executable, "-c", f"import pathlib, signal, sys, time; {IGNORE}; time.sleep(600)")


def home_at(path: Path) -> Home:
    """A home whose servers get little time to end."""
    return Home(ServiceSettings(home=path, stop_timeout=0.5), StreamSettings(home=path))


def start(home: Path, name: str, *command: str) -> psutil.Process:
    """Start a server of one process, which serves once it has made the file `mark`, where it is given that."""
    mark = home / name / "mark"
    command_line = (*command, str(mark)) if command == STUBBORN else command
    server = Server(
        name, "", home / name, (Process("main", command_line),), {}, {},
        readiness_problem=lambda: "" if command != STUBBORN or mark.exists() else "no mark",
    )  # fmt: skip
    supervisor = Supervisor(home, say=lambda _: None)
    supervisor.up([server], 60)
    return psutil.Process(supervisor.status(name).processes["main"])


@pytest.fixture(autouse=True)
def _ended(tmp_path: Path) -> Iterator[None]:
    yield
    for record in tmp_path.rglob("run/*.json"):
        if record.stem != "damaged":
            Supervisor(record.parent.parent, say=lambda _: None).down(record.stem, 0.0)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[list[psutil.Process]]:
    """The processes of a stream that neither comes to rest nor obeys SIGTERM."""
    process, processes = start_application(JobFolder(tmp_path / "streams" / "slow"), "nothing")
    yield processes
    process.kill()
    process.wait()


def test_a_stream_that_is_slow_to_stop_leaves_nothing_running(
    tmp_path: Path, slow: list[psutil.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended by force, once Airflow is gone, which would start it again; the servers after it."""
    monkeypatch.setattr("springline.spark_jobs.streaming.application.stop.TERMINATE_SECONDS", 0.0)
    servers = [start(tmp_path, name, *SLEEP) for name in ("kafka", "airflow")]
    messages: list[str] = []
    assert stop_home(home_at(tmp_path), 0.0, messages.append)
    assert not any(is_alive(process) for process in (*slow, *servers))
    summaries = [line.split(";")[0] for line in messages]
    assert summaries == ["airflow: stopped", "slow: has not ended", "slow: has not ended", "kafka: stopped"]


def test_a_stop_in_which_all_end_by_themselves_went_well(tmp_path: Path) -> None:
    """A folder of the cache in which nothing is goes too; one that holds something is reported."""
    cache = default_cache_folder(tmp_path)
    (cache / ".streams").mkdir(parents=True)
    process, _ = start_application(JobFolder(tmp_path / "streams" / "quick"), "the request")
    start(tmp_path, "kafka", *SLEEP)
    messages: list[str] = []
    try:
        assert stop_home(home_at(tmp_path), 60.0, messages.append)
        assert messages == ["quick: stopped", "kafka: stopped"] and not cache.exists()
        cache.mkdir()
        (cache / "block").write_bytes(bytes(1000))
        assert stop_home(home_at(tmp_path), 60.0, messages.append)
        remaining = f"the cache, 1 kB in {cache}; remove it with `rm -r` to free the memory"
        assert messages[2:] == [f"kept in memory for the next start: {remaining}"]
        assert (cache / "block").exists()
    finally:
        (cache / "block").unlink(missing_ok=True)
        cache.rmdir()
        process.kill()
        process.wait()


def test_a_server_that_cannot_be_inspected_keeps_no_other_running(tmp_path: Path) -> None:
    """Its record is damaged: that is reported, and the others end."""
    other, stubborn = start(tmp_path, "spark", *SLEEP), start(tmp_path, "kafka", *STUBBORN)
    (tmp_path / "run" / "damaged.json").write_text("{")
    messages: list[str] = []
    assert not stop_home(home_at(tmp_path), 0.0, messages.append)
    assert not is_alive(other) and not is_alive(stubborn)
    output = "\n".join(messages)
    assert "damaged.json: the record of a server cannot be read" in output
    assert "kafka: killed, since it had not stopped after 0.5 s" in output


def test_a_process_without_a_record_is_ended_too(tmp_path: Path) -> None:
    """Its record was removed while it ran."""
    process = start(tmp_path, "kafka", *SLEEP)
    (tmp_path / "run" / "kafka.json").unlink()
    messages: list[str] = []
    assert stop_home(home_at(tmp_path), 0.0, messages.append)
    assert not is_alive(process)
    assert messages == [f"processes without a record: SIGTERM to process groups {process.pid}"]


def test_a_profile_that_cannot_be_read_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named; what runs with the others ends."""
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / "bad.env").write_text("SPRINGLINE_HDFS_DATANODES=two\n")
    (profiles / "good.env").write_text(f"SPRINGLINE_HOME={tmp_path / 'good'}\n")
    (tmp_path / "good").mkdir()
    process = start(tmp_path / "good", "kafka", *SLEEP)
    monkeypatch.setattr("springline.services.settings.project_folder", lambda: tmp_path)
    monkeypatch.setattr("springline.persistence.profile.project_folder", lambda: tmp_path)
    messages: list[str] = []
    assert not stop_all_profiles(0.0, messages.append, profiles)
    assert not is_alive(process)
    assert messages[0].startswith("profile bad cannot be checked: SPRINGLINE_HDFS_DATANODES: ")
    assert messages[1:] == ["kafka: stopped"]


def test_servers_end_before_those_that_they_need() -> None:
    """Airflow before PostgreSQL; a name that no server has any more goes last."""
    assert stop_order(["postgres", "airflow", "old", "kafka"]) == ["airflow", "kafka", "postgres", "old"]
