"""The task that answers a range of a stream, with a topic that is a list."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from springline.airflow.operators.reprocess import StreamRangeOperator
from springline.persistence.platform import Platform
from springline.spark_jobs.streaming.windows.sink.query import query_results
from springline.testing.memory_log import MemoryLog

DECLARED = """
[ticks]
topic = "ticks"
[ticks.stream]
time = "t"
time_format = "iso"
fields = [["t", "text"], ["k", "text"]]
[ticks.queries]
all = "SELECT k, count(*) AS n FROM ticks GROUP BY k WINDOWING 1 h"
"""
DAY = {"data_interval_start": datetime(2013, 1, 5, tzinfo=UTC), "data_interval_end": datetime(2013, 1, 6, tzinfo=UTC)}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that declares the job `ticks`."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    return tmp_path


def context(**more: Any) -> dict[str, Any]:
    """What Airflow tells a task."""
    return {"dag_run": SimpleNamespace(dag_id="stream_range_ticks", run_id="scheduled__1", clear_number=0), **more}


def operator(platform: Platform, **changes: Any) -> StreamRangeOperator:
    """The task, over three ticks and something else."""
    log = MemoryLog({"ticks": 1})
    for value in (b"2013-01-04T23:30:00,a\n2013-01-05T00:30:00,a\n", b"\xff\xfe\n", b"2013-01-06T00:30:00,a\n"):
        log.put("ticks", 0, value)
    return StreamRangeOperator(
        task_id="recompute", job="ticks", open_platform=lambda actor: nullcontext(platform),
        open_log=lambda: nullcontext(log), **changes,
    )  # fmt: skip


def test_the_data_interval_of_the_run_is_the_range(platform: Platform) -> None:
    """The task tells what it made, what it read, and what could not be used."""
    result = operator(platform).execute(context(**DAY))
    assert result["dataset"] == "streams/ticks/ranges/2013-01-05T000000--2013-01-06T000000@1"
    assert result["rows"] == 1 and result["queries"] == {"all": {"rows": 1, "files": ["all-0.parquet"]}}
    assert result["counts"]["rows"] == 3 and result["counts"]["dead_letters"] == 1
    assert "not UTF-8" in result["dead_letters"][0]["reason"] and result["status"] == "persisted"


def test_a_retry_makes_nothing_anew_and_a_run_that_is_cleared_does(platform: Platform) -> None:
    """As for every dataset."""
    task = operator(platform)
    first = task.execute(context(**DAY))
    assert task.execute(context(**DAY))["dataset"] == first["dataset"]
    cleared = context(**DAY)
    cleared["dag_run"].clear_number = 1
    assert task.execute(cleared)["dataset"].endswith("@2")


def test_a_range_and_queries_can_be_given_with_the_run(platform: Platform) -> None:
    """Instead of its data interval, and of the job's queries."""
    days = "SELECT count(*) AS n FROM ticks WINDOWING 1 day"
    result = operator(platform, begin="2013-01-04", end="2013-01-07", queries={"days": days}).execute(context())
    assert result["rows"] == 3 and list(result["queries"]) == ["days"]


@pytest.mark.parametrize(
    ("changes", "expected_message"),
    [
        ({}, "no range"),
        ({"begin": "2013-01-06", "end": "2013-01-05"}, "the end must be after the beginning"),
        ({"begin": "2013-01-05", "end": "2013-01-06", "queries": {"worse": "SELECT nothing FROM ticks"}}, "worse"),
    ],
)
def test_what_no_retry_can_mend_fails_at_once(
    platform: Platform, changes: dict[str, Any], expected_message: str
) -> None:
    """With what is wrong, and nothing in the catalog."""
    with pytest.raises(AirflowFailException, match=expected_message):
        operator(platform, **changes).execute(context())
    assert platform.catalog.find(prefix="streams/") == []


def test_the_results_of_ranges_are_not_those_that_the_stream_keeps(platform: Platform) -> None:
    """Otherwise a window would be in both."""
    from springline.spark_jobs.streaming.errors import NoSinkError
    from springline.spark_jobs.streaming.jobs import read_job
    from springline.spark_jobs.streaming.settings import StreamSettings

    operator(platform).execute(context(**DAY))
    with pytest.raises(NoSinkError):
        query_results(platform, read_job(StreamSettings().declarations, "ticks"), "SELECT * FROM all")


def test_a_job_has_a_dag_whose_runs_have_a_day_as_their_interval() -> None:
    """So a backfill over days is one over ranges; nothing is caught up by itself."""
    bag = DagBag(Path(__file__).resolve().parents[2] / "dags" / "stream_ranges.py")
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    assert dag.dag_id == "stream_range_ticks" and not dag.catchup
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert set(dag.params) == {"queries", "begin", "end", "strategy"}
