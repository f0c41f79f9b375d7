"""The listener: a DAG run's beginning and end are noted in the catalog."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from springline.airflow.listener import RunListener
from springline.persistence.catalog.schema import dag_run as dag_runs
from springline.persistence.model.dataset import Origin
from springline.testing.lines import lines_of
from springline.testing.lines import make_dataset as make


def run_of(*task_types, clear_number=0):
    """A DAG run as the scheduler hands it to listeners."""
    dag = SimpleNamespace(tasks=[SimpleNamespace(task_type=each) for each in task_types])
    return SimpleNamespace(dag_id="etl", run_id="r1", clear_number=clear_number, get_dag=lambda: dag)


def listener_on(platform):
    """A listener that opens this platform's catalog."""

    @contextmanager
    def open_catalog(who):
        yield platform.catalog

    return RunListener(open_catalog)


def rows(platform):
    """What the catalog knows of DAG runs."""
    query = select(dag_runs.c.dag_id, dag_runs.c.run_id, dag_runs.c.outcome, dag_runs.c.ended_at.is_not(None))
    with platform.catalog.reading() as connection:
        return [tuple(row) for row in connection.execute(query)]


def test_a_run_sees_what_was_committed_when_it_began(platform):
    """What others commit after the run's beginning does not change what it reads."""
    make(platform, "a", lines=["old"])
    listener_on(platform).on_dag_run_running(run_of("DatasetOperator"), "")
    make(platform, "a", lines=["new"])
    assert lines_of(platform, "a", Origin("etl", "r1", "t")) == ["old"]
    assert lines_of(platform, "a") == ["new"]


def test_the_end_of_a_run_is_noted_with_its_outcome(platform):
    """From then on the run holds no generation back."""
    listener = listener_on(platform)
    listener.on_dag_run_running(run_of("DatasetOperator"), "")
    listener.on_dag_run_failed(run_of("DatasetOperator"), "")
    listener.on_dag_run_running(run_of("DatasetOperator", clear_number=1), "")
    listener.on_dag_run_success(run_of("DatasetOperator", clear_number=1), "")
    assert rows(platform) == [("etl", "r1", "failed", True), ("etl", "r1#1", "success", True)]


def test_runs_that_make_no_datasets_are_left_out(platform):
    """The persister's own runs are not noted."""
    listener = listener_on(platform)
    listener.on_dag_run_running(run_of("PersisterOperator"), "")
    listener.on_dag_run_success(run_of("PersisterOperator"), "")
    assert rows(platform) == []


# ---- OpenLineage


def task_of(listener_run, task_type="DatasetOperator"):
    """A task as its process hands it to listeners."""
    task = SimpleNamespace(task_type=task_type)
    return SimpleNamespace(task_id="clean", task=task, get_template_context=lambda: {"dag_run": listener_run})


@pytest.fixture
def events(tmp_path, monkeypatch):
    """Reads the events that were sent until then, as (job, type, id of the run)."""
    file = tmp_path / "events"
    monkeypatch.setenv("SPRINGLINE_OPENLINEAGE", f"file://{file}")

    def read(listener):
        for lineage in listener._opened.values():
            lineage.close()
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [(each["job"]["name"], each["eventType"], each["run"]) for each in told]

    return read


def test_a_dag_run_and_its_tasks_are_told_from_beginning_to_end(platform, events):
    """The task below its DAG run, each with one run."""
    listener, run = listener_on(platform), run_of("DatasetOperator")
    listener.on_dag_run_running(run, "")
    listener.on_task_instance_running(None, task_of(run))
    listener.on_task_instance_failed(None, task_of(run), ValueError("postgresql://ann:hunter2@db is away"))
    listener.on_task_instance_running(None, task_of(run))
    listener.on_task_instance_success(None, task_of(run))
    listener.on_dag_run_success(run, "")
    told = events(listener)
    assert [(job, kind) for job, kind, _ in told] == [
        ("etl", "START"), ("etl.clean", "START"), ("etl.clean", "FAIL"), ("etl.clean", "START"),
        ("etl.clean", "COMPLETE"), ("etl", "COMPLETE"),
    ]  # fmt: skip
    (dag,) = {each["runId"] for job, _, each in told if job == "etl"}
    assert {each["facets"]["parent"]["run"]["runId"] for job, _, each in told if job == "etl.clean"} == {dag}
    assert told[2][2]["facets"]["errorMessage"]["message"] == "postgresql://ann:***@db is away"


def test_tasks_that_make_no_datasets_are_not_told(platform, events):
    """The persister's transfers are, by themselves."""
    listener = listener_on(platform)
    listener.on_task_instance_running(None, task_of(run_of("PersisterOperator"), "PersisterOperator"))
    assert events(listener) == []


def test_an_event_that_cannot_be_made_keeps_nothing_else_from_being_noted(platform, events, monkeypatch):
    """The catalog hears of the DAG run all the same."""
    monkeypatch.setattr("springline.persistence.monitoring.openlineage_sender.Lineage.tell", lambda *_: 1 / 0)
    listener_on(platform).on_dag_run_running(run_of("DatasetOperator"), "")
    assert [row[:2] for row in rows(platform)] == [("etl", "r1")]
