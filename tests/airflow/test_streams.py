"""The task that supervises a stream, its trigger, and the task that answers a range of a stream."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from springline.airflow.operators.reprocess import StreamRangeOperator
from springline.airflow.operators.stream import HeartbeatTrigger, StreamOperator
from springline.persistence.monitoring.alerts import list_active_alerts, read_states
from springline.spark_jobs.streaming.application.supervision import Limits, read_starts, record_start
from springline.spark_jobs.streaming.errors import NoSinkError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.jobs import read_job
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sql.errors import InvalidQueryError
from springline.spark_jobs.streaming.windows.registry_file import read_registry
from springline.spark_jobs.streaming.windows.sink.query import query_results
from springline.testing.memory_log import MemoryLog
from tests.support.airflow.triggers import first_payload

DECLARED = """
[ticks]
topic = "ticks"
[ticks.stream]
time = "t"
fields = [["t", "timestamp"], ["k", "text"]]
[ticks.queries]
all = "SELECT k, count(*) AS n FROM ticks GROUP BY k WINDOWING 1 h"
"""
CONTEXT = {"run_id": "manual__1"}
DAY = {"data_interval_start": datetime(2013, 1, 5, tzinfo=UTC), "data_interval_end": datetime(2013, 1, 6, tzinfo=UTC)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `ticks`."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    return JobFolder(tmp_path / "streams" / "ticks")


def write_heartbeat(folder: JobFolder, state: str, **more: object) -> None:
    """What an application would report."""
    folder.path.mkdir(parents=True, exist_ok=True)
    now = time.time()
    heartbeat = {"state": state, "error": "", "heartbeat_at": now, "started_at": now, "pid": None, "stages": {}}
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
    with folder.application_lock():
        write_heartbeat(folder, "running")
        with pytest.raises(TaskDeferred):
            operator(started_jobs).execute(CONTEXT)
    assert started_jobs == ["ticks"], "a retry finds it running"
    assert len(read_starts(folder, "manual__1")) == 1


def test_an_application_that_died_is_started_again_within_limits(folder, tmp_path):
    """Beyond them the task fails, and says where to look; that is an alert by the rules that are shipped."""
    started_jobs: list[str] = []
    task = operator(started_jobs, limits=Limits(restarts=1))
    for _ in range(2):
        write_heartbeat(folder, "failed", error="the broker is away")
        with pytest.raises(TaskDeferred):
            task.resume(CONTEXT, event={"action": "start", "reason": "the broker is away"}, run="manual__1")
    with pytest.raises(AirflowException, match=r"ticks is not restarted.*: the broker is away; started 2 times.*log"):
        task.resume(CONTEXT, event={"action": "start", "reason": "again"}, run="manual__1")
    assert started_jobs == ["ticks", "ticks"]
    for _ in range(5):
        record_start(folder, "manual__1", time.time())
    with pytest.raises(AirflowException, match="ticks is not restarted any more"):
        operator([]).execute(CONTEXT)
    alerts = [each.rule for each in list_active_alerts(read_states(tmp_path / "alerts")) if each.is_firing]
    assert alerts == ["stream-restart-limit"]


def test_a_stream_that_was_stopped_ends_its_task(folder):
    """A stop is a success."""
    started_jobs: list[str] = []
    with pytest.raises(TaskDeferred):
        operator(started_jobs).execute(CONTEXT)
    write_heartbeat(folder, "stopped", stages={"map": {"round": 7}})
    result = operator(started_jobs).resume(CONTEXT, event={"action": "finished", "reason": "stopped"}, run="manual__1")
    assert result == {"job": "ticks", "stages": {"map": {"round": 7}}} and started_jobs == ["ticks"]


def test_queries_of_the_run_are_registered_before_the_job_starts(folder):
    """New ones beside those that are declared, others of the same name in their place; a wrong one starts nothing."""
    started_jobs: list[str] = []
    with pytest.raises(InvalidQueryError, match="worse"):
        operator(started_jobs, queries={"worse": "SELECT nothing FROM ticks"}).execute(CONTEXT)
    assert started_jobs == []
    sql = "SELECT count(*) AS n FROM ticks WINDOWING 1 min"
    with pytest.raises(TaskDeferred):
        operator([], queries={"more": sql, "all": sql}).execute(CONTEXT)
    assert {query.name: query.sql for query in read_registry(folder).registered} == {"all": sql, "more": sql}


def test_the_trigger_fires_when_the_application_dies(folder):
    """And renews the lease while it looks; a user who ends the task stops the stream at a round's boundary."""
    write_heartbeat(folder, "running")
    _, kwargs = HeartbeatTrigger("ticks", "manual__1", {"restarts": 5}, poll=0.01, settle=0).serialize()
    event = first_payload(HeartbeatTrigger(**kwargs))
    assert event == {"action": "start", "reason": "it is dead"}
    assert folder.lease_file.exists() and not folder.stop_file.exists()
    asyncio.run(HeartbeatTrigger("ticks", "manual__1", {}).on_kill())
    assert folder.stop_file.exists()


# ---- ranges


def range_context(**more):
    """The context that Airflow passes to a task."""
    return {"dag_run": SimpleNamespace(dag_id="stream_range_ticks", run_id="scheduled__1", clear_number=0), **more}


def range_operator(platform, **changes):
    """The task, over three ticks and something else."""
    log = MemoryLog({"ticks": 1})
    for value in (b"2013-01-04T23:30:00,a\n2013-01-05T00:30:00,a\n", b"\xff\xfe\n", b"2013-01-06T00:30:00,a\n"):
        log.put("ticks", 0, value)
    return StreamRangeOperator(
        task_id="recompute", job="ticks", open_platform=lambda actor: nullcontext(platform),
        open_log=lambda: nullcontext(log), **changes,
    )  # fmt: skip


def test_the_data_interval_of_the_run_is_the_range(platform):
    """The task reports what it wrote, what it read, and what could not be used; the stream keeps its own results."""
    result = range_operator(platform).execute(range_context(**DAY))
    assert result["dataset"] == "streams/ticks/ranges/2013-01-05T000000--2013-01-06T000000@1"
    assert result["rows"] == 1 and result["queries"] == {"all": {"rows": 1, "files": ["all-0.parquet"]}}
    assert result["counts"]["rows"] == 3 and result["counts"]["dead_letters"] == 1
    assert "not UTF-8" in result["dead_letters"][0]["reason"] and result["status"] == "persisted"
    with pytest.raises(NoSinkError):  # otherwise a window would be in both
        query_results(platform, read_job(StreamSettings().declarations, "ticks"), "SELECT * FROM all")


def test_a_retry_recomputes_nothing_and_a_run_that_is_cleared_does(platform):
    """As for every dataset."""
    task = range_operator(platform)
    first = task.execute(range_context(**DAY))
    assert task.execute(range_context(**DAY))["dataset"] == first["dataset"]
    cleared = range_context(**DAY)
    cleared["dag_run"].clear_number = 1
    assert task.execute(cleared)["dataset"].endswith("@2")


def test_a_range_and_queries_can_be_given_with_the_run(platform):
    """Instead of its data interval, and of the job's queries."""
    days = "SELECT count(*) AS n FROM ticks WINDOWING 1 day"
    task = range_operator(platform, begin="2013-01-04", end="2013-01-07", queries={"days": days})
    result = task.execute(range_context())
    assert result["rows"] == 3 and list(result["queries"]) == ["days"]


@pytest.mark.parametrize(
    ("changes", "expected_message"),
    [
        ({}, "no range"),
        ({"begin": "2013-01-06", "end": "2013-01-05"}, "the end must be after the beginning"),
        ({"begin": "2013-01-05", "end": "2013-01-06", "queries": {"worse": "SELECT nothing FROM ticks"}}, "worse"),
    ],
)
def test_what_no_retry_can_repair_fails_at_once(platform, changes, expected_message):
    """With what is wrong, and nothing in the catalog."""
    with pytest.raises(AirflowFailException, match=expected_message):
        range_operator(platform, **changes).execute(range_context())
    assert platform.catalog.find(prefix="streams/") == []
