"""Listener of DAG runs: records when a DAG run began, which decides what it reads, and how it ended.

It also creates the platform's pools when a component of Airflow starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from airflow.listeners import hookimpl

from springline.airflow.platform_context import catalog_session
from springline.airflow.pools import create_missing_pools
from springline.airflow.postgres import add_pgcode
from springline.airflow.runs import origin_of
from springline.persistence.catalog.catalog import Catalog

OpenCatalog = Callable[[str], AbstractContextManager[Catalog]]
_DATASET_TASK_TYPE = "DatasetOperator"  # the type of tasks that write datasets
_COMPONENT_TYPE = "Job"  # Airflow's name for a scheduler, a triggerer or a DAG processor
_CATALOG_TIMEOUT = 30.0  # seconds that the scheduler waits for the catalog


class RunListener:
    """Receives the events of every DAG run in the scheduler, and records the runs whose tasks write datasets.

    An error here does not stop the scheduler: Airflow logs errors of listeners. If the start of a run was missed, its
    first task records it; if the end was missed, the run's read lock expires.
    """

    def __init__(self, open_catalog: OpenCatalog = catalog_session) -> None:
        self._open = open_catalog

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """Create pools when a component of Airflow starts; not in a task's process, which has no database access."""
        if type(component).__name__ == _COMPONENT_TYPE:
            add_pgcode()
            create_missing_pools()

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        """Record that a DAG run began."""
        if makes_datasets(dag_run):
            origin = origin_of(dag_run)
            self._run_in_thread(lambda catalog: catalog.begin_run(origin))

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """Record that a DAG run succeeded."""
        self._end_run(dag_run, "success")

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """Record that a DAG run failed."""
        self._end_run(dag_run, "failed")

    def _end_run(self, dag_run: Any, outcome: str) -> None:
        if makes_datasets(dag_run):
            origin = origin_of(dag_run)
            self._run_in_thread(lambda catalog: catalog.end_run(origin, outcome))

    def _run_in_thread(self, work: Callable[[Catalog], None]) -> None:
        """Run `work` in a separate thread.

        Looking up connections closes Airflow's database session of the calling thread. In the scheduler's own thread
        that would detach the DAG runs that it is processing, and terminate it.
        """

        failures: list[Exception] = []

        def note() -> None:
            try:
                with self._open("DAG run listener") as catalog:
                    work(catalog)
            except Exception as failure:
                failures.append(failure)

        thread = threading.Thread(target=note, name="DAG run listener", daemon=True)
        thread.start()
        thread.join(_CATALOG_TIMEOUT)
        if failures:
            raise failures[0]
        if thread.is_alive():
            raise TimeoutError(f"the catalog did not answer within {_CATALOG_TIMEOUT:.0f} s")


def makes_datasets(dag_run: Any) -> bool:
    """Whether a task of this DAG run writes datasets."""
    return any(task.task_type == _DATASET_TASK_TYPE for task in dag_run.get_dag().tasks)
