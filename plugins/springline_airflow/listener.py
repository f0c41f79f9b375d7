"""Ties DAG runs to datasets: notes when a DAG run began, which decides what it sees, and how it ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.listeners import hookimpl

from persistence.catalog import Catalog
from springline_airflow.runs import origin_of

log = logging.getLogger(__name__)
OpenCatalog = Callable[[str], AbstractContextManager[Catalog]]


def _open(who: str) -> AbstractContextManager[Catalog]:
    from springline_airflow.opening import opened_catalog

    return opened_catalog(who)


class RunListener:
    """Hears of every DAG run in the scheduler, and notes those whose tasks make datasets.

    The scheduler goes on whatever happens here: Airflow logs an error of a listener. A beginning that
    was missed is noted by the run's first task; an end that was missed runs out with the reader's time.
    """

    def __init__(self, open_catalog: OpenCatalog = _open) -> None:
        self._open = open_catalog

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        """A DAG run began."""
        if makes_datasets(dag_run):
            with self._open("dag run listener") as catalog:
                catalog.begin_run(origin_of(dag_run))

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
            with self._open("dag run listener") as catalog:
                catalog.end_run(origin_of(dag_run), outcome)


def makes_datasets(dag_run: Any) -> bool:
    """Whether a task of this DAG run makes datasets."""
    dag = dag_run.get_dag()
    return any(task.task_type == "DatasetOperator" for task in dag.tasks)
