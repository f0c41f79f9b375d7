"""What the demo shows while DAG runs and streams go on and when they fail, and its use of Airflow's REST API."""

from __future__ import annotations

import io
import json
from datetime import date

import httpx
import pytest
from rich.console import Console

from springline.services.airflow_api import AirflowApi, AirflowApiError, TaskState
from springline.services.demo.failure import errors_in
from springline.services.demo.progress import RunProgress
from springline.services.demo.streams import drop_stale_states
from springline.services.demo.wait import ProgressTimeout
from springline.spark_jobs.streaming.settings import StreamSettings


def task(task_id, state, attempt=1):
    """One task of one run."""
    return TaskState("backfill__1", "2013-01-05", task_id, state, attempt)


def test_each_ended_task_is_one_line_and_on_a_terminal_a_bar_shows_what_is_running():
    """A line when it ends, and none again when it is repeated; one bar a run: how many tasks of how many ended."""
    out = io.StringIO()
    with RunProgress(Console(file=out, width=100)) as progress:
        progress.show("2013-01-05", [task("load", "success"), task("parse", "running")])
        progress.show("2013-01-05", [task("load", "success"), task("parse", "failed")])
    lines = [line.split("  ")[-2:] for line in out.getvalue().splitlines()]
    assert lines == [["2013-01-05", "load: success"], ["2013-01-05", "parse: failed"]]
    out = io.StringIO()
    with RunProgress(Console(file=out, width=100, force_terminal=True)) as progress:
        progress.show("2013-01-05", [task("load", "success"), task("parse", "running")])
    assert "1/2" in out.getvalue() and "parse" in out.getvalue()


def test_without_a_terminal_words_are_said_now_and_then():
    """At first, and when they are others some seconds later; on a terminal they stand beside the bars."""
    out = io.StringIO()
    with RunProgress(Console(file=out, width=100)) as progress:
        for text in ("starting", "12 rows", "24 rows"):
            progress.show_text("stream flights", text)
    assert [line.split("  ")[-1] for line in out.getvalue().splitlines()] == ["starting"]
    with RunProgress(Console(file=out, width=100, force_terminal=True)) as progress:
        progress.show_text("stream flights", "36 rows")
    assert "36 rows" in out.getvalue()


def test_an_error_without_an_exception_is_reported_by_its_words():
    """A task that was killed has logged so."""
    assert errors_in([json.dumps({"level": "error", "event": "Task killed!"})]) == ["Task killed!"]


class Airflow:
    """Stands where Airflow is: answers from a script, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, request):
        self.asked.append((request.method, request.url.path))
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "t"})
        if request.headers.get("authorization") != "Bearer t":
            return httpx.Response(401)
        return self.answers.pop(0)


def make_api(airflow):
    """A session with it that does not wait."""
    transport = httpx.MockTransport(airflow)
    return AirflowApi("http://airflow", "admin", "secret", sleep=lambda seconds: None, transport=transport)


def test_the_first_call_logs_in():
    """And the token is kept for those that follow; runs that wait or run are reported by their ids."""
    runs = [{"dag_run_id": "a", "state": "running"}, {"dag_run_id": "b", "state": "queued"}]
    airflow = Airflow(
        httpx.Response(200, json={"state": "success"}), httpx.Response(200, json={"dag_runs": runs, "total_entries": 2})
    )
    api = make_api(airflow)
    assert api.run_state("etl", "r") == "success"
    assert api.active_runs("stream_words") == {"a": "running", "b": "queued"}
    assert [path for _, path in airflow.asked].count("/auth/token") == 1


def test_half_a_backfill_is_cancelled_and_created_again():
    """Airflow answers 503 while its SQLite database is locked; what that left would stand in the way."""
    half = {"backfills": [{"id": 6, "completed_at": None}, {"id": 5, "completed_at": "2026-01-01"}], "total_entries": 2}
    airflow = Airflow(
        httpx.Response(200, json={"timezone": "UTC"}),
        httpx.Response(200, json={"backfills": [], "total_entries": 0}),
        httpx.Response(503),
        httpx.Response(500, json={"detail": {"reason": "Database error"}}),
        httpx.Response(200, json=half),
        httpx.Response(200, json={"id": 6}),
        httpx.Response(200, json={"id": 7}),
    )
    assert make_api(airflow).backfill("etl", date(2013, 1, 5), date(2013, 1, 7), {}, runs_at_once=3).id == 7
    assert ("PUT", "/api/v2/backfills/6/cancel") in airflow.asked


@pytest.mark.parametrize("status", [404, 409])
def test_a_backfill_that_is_over_before_it_is_cancelled_is_no_error(status):
    """The database took the half back by itself, or it ended."""
    listed = {"backfills": [{"id": 6, "completed_at": None}], "total_entries": 1}
    airflow = Airflow(httpx.Response(200, json=listed), httpx.Response(status, json={"detail": "not there"}))
    make_api(airflow).end_backfills("etl")
    assert airflow.asked[-1] == ("PUT", "/api/v2/backfills/6/cancel") and not airflow.answers


def test_a_backfill_is_awaited_until_airflow_counts_it_as_ended():
    """Another one is refused before, though all runs of the first have ended."""
    ended = {"id": 5, "completed_at": "2026-01-01"}
    listed = [{"backfills": [{"id": 6, "completed_at": at}, ended], "total_entries": 2}
              for at in (None, None, "2026-01-02")]  # fmt: skip
    airflow = Airflow(*(httpx.Response(200, json=each) for each in listed))
    make_api(airflow).await_backfills("etl")
    assert not airflow.answers
    airflow = Airflow(httpx.Response(200, json=listed[0]))
    with pytest.raises(AirflowApiError, match="backfill 6 of etl has not finished after 0 s"):
        make_api(airflow).await_backfills("etl", patience=0)


def test_a_dag_that_cannot_be_imported_is_reported_with_its_error():
    """Waiting longer would not help."""
    errors = {"import_errors": [{"filename": "etl.py", "stack_trace": "Traceback\n  File x\nNameError: x\n"}]}
    airflow = Airflow(httpx.Response(404), httpx.Response(200, json=errors))
    with pytest.raises(AirflowApiError, match=r"etl\.py: NameError: x\n"):
        make_api(airflow).await_dags(("etl",))


def test_states_that_a_removed_home_left_in_memory_are_removed_too(tmp_path, monkeypatch):
    """A job that the home knows keeps its own."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAM_STATE_DIR", str(tmp_path / "memory"))
    settings = StreamSettings()
    settings.folder("known").path.mkdir(parents=True)
    for job in ("known", "forgotten", "another"):
        (settings.state_folder / job / "map").mkdir(parents=True)
    drop_stale_states(settings, ["known", "forgotten", "never"])
    assert {path.name for path in settings.state_folder.iterdir()} == {"known", "another"}


def test_patience_is_for_what_gets_no_further():
    """A busy machine is slow, and no fault."""
    now = iter([0.0, 50.0, 100.0, 150.0, 170.0])
    patience = ProgressTimeout(60.0, lambda: next(now))
    assert [patience.is_over(far) for far in (1, 2, 2, 2)] == [False, False, False, True]
