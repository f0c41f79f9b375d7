"""Ties DAG runs to datasets: notes when a DAG run began, which decides what it sees, and how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.listeners import hookimpl

from persistence.catalog import Catalog
from springline_airflow.opening import opened_catalog
from springline_airflow.runs import origin_of

OpenCatalog = Callable[[str], AbstractContextManager[Catalog]]
_PATIENCE = 30.0  # seconds that the scheduler waits for the catalog


class RunListener:
    """Hears of every DAG run in the scheduler, and notes those whose tasks make datasets.

    The scheduler goes on whatever happens here: Airflow logs an error of a listener. A beginning that
    was missed is noted by the run's first task; an end that was missed runs out with the reader's time.
    """

    def __init__(self, open_catalog: OpenCatalog = opened_catalog) -> None:
        self._open = open_catalog

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        """A DAG run began."""
        if makes_datasets(dag_run):
            origin = origin_of(dag_run)
            self._aside(lambda catalog: catalog.begin_run(origin))

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """A DAG run ended well."""
        self._ended(dag_run, "success")

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """A DAG run failed."""
        self._ended(dag_run, "failed")

    def _ended(self, dag_run: Any, outcome: str) -> None:
        if makes_datasets(dag_run):
            origin = origin_of(dag_run)
            self._aside(lambda catalog: catalog.end_run(origin, outcome))

    def _aside(self, work: Callable[[Catalog], None]) -> None:
        """Do it in a thread of its own.

        Looking connections up closes Airflow's database session of the thread that asks. In the scheduler's own
        thread that would detach the very DAG runs that it is working on, and end it.
        """

        failures: list[Exception] = []

        def note() -> None:
            try:
                with self._open("dag run listener") as catalog:
                    work(catalog)
            except Exception as failure:
                failures.append(failure)

        aside = threading.Thread(target=note, name="dag run listener", daemon=True)
        aside.start()
        aside.join(_PATIENCE)
        if failures:
            raise failures[0]
        if aside.is_alive():
            raise TimeoutError(f"the catalog did not answer within {_PATIENCE:.0f} s")


def makes_datasets(dag_run: Any) -> bool:
    """Whether a task of this DAG run makes datasets."""
    return any(task.task_type == "DatasetOperator" for task in dag_run.get_dag().tasks)
