"""The task that supervises a stream, and its trigger, with an application that only beats."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, TaskDeferred

from springline.airflow.operators.stream import HeartbeatTrigger, StreamOperator
from springline.spark_jobs.streaming.application.supervision import Limits, read_starts
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.registry_file import read_registry

DECLARED = """
[ticks]
topic = "ticks"
[ticks.stream]
time = "t"
fields = [["t", "float"], ["k", "text"]]
[ticks.queries]
all = "SELECT k, count(*) AS n FROM ticks GROUP BY k WINDOWING 5 s"
"""
CONTEXT = {"run_id": "manual__1"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `ticks`."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    return JobFolder(tmp_path / "streams" / "ticks")


def write_heartbeat(folder: JobFolder, state: str, **more: object) -> None:
    """What an application would tell."""
    folder.path.mkdir(parents=True, exist_ok=True)
    heartbeat = {
        "state": state,
        "error": "",
        "heartbeat_at": time.time(),
        "started_at": time.time(),
        "pid": None,
        "stages": {},
    }
    folder.write_heartbeat({**heartbeat, **more})


def operator(started_jobs: list[str], **changes: object) -> StreamOperator:
    """The task, which notes what it starts."""
    return StreamOperator(
        task_id="supervise", job="ticks", start_application=lambda job, _: started_jobs.append(job), **changes
    )


def test_the_application_is_started_once_and_then_watched(folder):
    """What the task waits for, it waits for as a trigger."""
    started_jobs: list[str] = []
    with pytest.raises(TaskDeferred) as deferred:
        operator(started_jobs).execute(CONTEXT)
    assert started_jobs == ["ticks"] and isinstance(deferred.value.trigger, HeartbeatTrigger)
    assert len(read_starts(folder, "manual__1")) == 1


def test_a_retry_finds_the_application_running(folder):
    """Whatever Airflow tries again, there is one."""
    started_jobs: list[str] = []
    with folder.application_lock():
        write_heartbeat(folder, "running")
        with pytest.raises(TaskDeferred):
            operator(started_jobs).execute(CONTEXT)
    assert started_jobs == []


def test_an_application_that_died_is_started_again_within_limits(folder):
    """Beyond them the task fails, and says where to look."""
    started_jobs: list[str] = []
    task = operator(started_jobs, limits=Limits(restarts=1))
    for _ in range(2):
        write_heartbeat(folder, "failed", error="the broker is away")
        with pytest.raises(TaskDeferred):
            task.resume(CONTEXT, event={"action": "start", "reason": "the broker is away"}, run="manual__1")
    with pytest.raises(AirflowException, match=r"ticks is not restarted.*: the broker is away; started 2 times.*log"):
        task.resume(CONTEXT, event={"action": "start", "reason": "again"}, run="manual__1")
    assert started_jobs == ["ticks", "ticks"]


def test_a_stream_that_was_stopped_ends_its_task(folder):
    """A stop is a success."""
    started_jobs: list[str] = []
    with pytest.raises(TaskDeferred):
        operator(started_jobs).execute(CONTEXT)
    write_heartbeat(folder, "stopped", stages={"map": {"round": 7}})
    result = operator(started_jobs).resume(CONTEXT, event={"action": "finished", "reason": "stopped"}, run="manual__1")
    assert result == {"job": "ticks", "stages": {"map": {"round": 7}}} and started_jobs == ["ticks"]


def test_queries_of_the_run_are_registered_before_the_job_starts(folder):
    """New ones beside those that are declared, others of the same name in their place."""
    sql = "SELECT count(*) AS n FROM ticks WINDOWING 1 min"
    with pytest.raises(TaskDeferred):
        operator([], queries={"more": sql, "all": sql}).execute(CONTEXT)
    registry = read_registry(folder)
    assert registry is not None and {query.name: query.sql for query in registry.registered} == {
        "all": sql,
        "more": sql,
    }


def test_a_wrong_query_fails_the_task_and_starts_nothing(folder):
    """The error names the query."""
    started_jobs: list[str] = []
    with pytest.raises(InvalidQueryError, match="worse"):
        operator(started_jobs, queries={"worse": "SELECT nothing FROM ticks"}).execute(CONTEXT)
    assert started_jobs == []


def first_event(trigger: HeartbeatTrigger) -> dict[str, str]:
    """What the trigger fires with."""

    async def first() -> dict[str, str]:
        async for event in trigger.run():
            return event.payload
        raise AssertionError("it did not fire")

    return asyncio.run(asyncio.wait_for(first(), 10))


def test_the_trigger_fires_when_the_application_dies(folder):
    """And renews the lease while it looks."""
    write_heartbeat(folder, "running")
    _, kwargs = HeartbeatTrigger("ticks", "manual__1", {"restarts": 5}, poll=0.01, settle=0).serialize()
    event = first_event(HeartbeatTrigger(**kwargs))
    assert event == {"action": "start", "reason": "it is dead"}
    assert folder.lease_file.exists()


def test_a_user_who_ends_the_task_stops_the_stream(folder):
    """At a round's boundary: the application looks for this."""
    asyncio.run(HeartbeatTrigger("ticks", "manual__1", {}).on_kill())
    assert folder.stop_file.exists()
