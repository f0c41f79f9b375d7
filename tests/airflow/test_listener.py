"""The listener: a DAG run's beginning and end are noted in the catalog."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

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
    def open_catalog(actor):
        yield platform.catalog

    return RunListener(open_catalog)


def rows(platform):
    """What the catalog knows of DAG runs."""
    query = select(dag_runs.c.dag_id, dag_runs.c.run_id, dag_runs.c.outcome, dag_runs.c.ended_at.is_not(None))
    with platform.catalog.read_transaction() as connection:
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
