"""What the live view of streams shows of jobs."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from springline.spark_jobs.streaming.errors import NoSinkError
from springline.spark_jobs.streaming.job_folder import JobFolder
from tests.support.commands import invoke, printed, refused

DECLARED = '[ticks]\ntopic = "ticks"\n[ticks.stream]\ntime = "t"\nfields = [["t", "timestamp(s)"], ["k", "text"]]\n'
stream_output = partial(printed, "stream")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of the job `ticks`."""
    (tmp_path / "streams.toml").write_text(DECLARED)
    for name, value in (("HOME", tmp_path), ("STREAMS_FILE", tmp_path / "streams.toml")):
        monkeypatch.setenv(f"SPRINGLINE_{name}", str(value))
    monkeypatch.setenv("COLUMNS", "140")
    return JobFolder(tmp_path / "streams" / "ticks")


def test_a_job_that_runs_is_shown_with_its_stages(folder: JobFolder) -> None:
    """How long, how far, how far behind."""
    stage = {"round": 7, "round_ended_at": time.time(), "counts": {"rows": 1234, "late": 5},
             "state_bytes": 2_000_000, "task_memory": 3_000_000, "seconds": 0.25, "newest_timestamp": 0.0, "lag": 42,
             "slow_reading": "ticks is read message by message: it has messages of the format v1"}  # fmt: skip
    with folder.application_lock():
        times = {"heartbeat_at": time.time(), "started_at": time.time() - 3725}
        folder.write_heartbeat({"state": "running", "error": "", "pid": 7, "stages": {"map": stage}, **times})
        output_words = stream_output("list").split()
    for word in ("ticks", "running", "1:02:05", "map", "7", "1,234", "42", "250", "2", "MB", "5", "v1"):
        assert word in output_words, word


def test_a_query_that_is_cancelled_is_listed_no_more(folder: JobFolder) -> None:
    """Registering, changing and cancelling each make a new version."""
    sql = "SELECT k, count(*) AS n FROM ticks GROUP BY k WINDOWING 5 s"
    assert "version 1" in stream_output("register", "ticks", "q", sql)
    assert "version 2" in stream_output("alter", "ticks", "q", sql.replace("5 s", "6 s"))
    assert "6 s" in stream_output("queries", "ticks")
    assert "version 3" in stream_output("cancel", "ticks", "q")
    assert "6 s" not in stream_output("queries", "ticks")


def test_a_wrong_query_is_refused_by_name_and_changes_nothing(folder: JobFolder) -> None:
    """The error has the place in it too."""
    sql = "SELECT nothing, count(*) AS n FROM ticks GROUP BY nothing WINDOWING 60 s"
    error = refused("stream", "register", "ticks", "bad", sql)
    assert "'bad'" in error and "nothing" in error
    assert "bad" not in stream_output("queries", "ticks")


def test_asking_nothing_lists_what_can_be_asked(folder: JobFolder) -> None:
    """Before anybody tries; in JSON too."""
    assert "register a query first" in stream_output("query", "ticks")
    stream_output("register", "ticks", "q", "SELECT k, count(*) AS n FROM ticks GROUP BY k WINDOWING 5 s")
    assert "count(*)" in stream_output("query", "ticks") and "n × 5 s" in stream_output("query", "ticks")
    assert '"aggregates"' in stream_output("query", "ticks", "--json")


def test_stopping_names_jobs_that_do_not_run_unless_asked_to_be_quiet(folder: JobFolder) -> None:
    """`make stop` asks for that."""
    assert "ticks: not running" in stream_output("stop")
    assert stream_output("stop", "--quiet") == ""


def test_asking_kept_results_before_there_are_any_says_what_to_do(folder: JobFolder) -> None:
    """As an error of ours, which the command line prints."""
    result = invoke("stream", "sql", "ticks", "SELECT 1")
    assert isinstance(result.exception, NoSinkError) and 'sink = "parquet"' in str(result.exception)
