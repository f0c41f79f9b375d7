"""Ties DAG runs to datasets: notes when a DAG run began, which decides what it sees, and how it ended.

Makes the platform's pools when a part of Airflow starts.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from springline.airflow.platform_context import opened_catalog
from springline.airflow.pools import make_missing
from springline.airflow.postgres import name_codes
from springline.airflow.runs import origin_of
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.monitoring.openlineage_sender import Lineage, open_lineage
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.text.redaction import redacted

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from springline.persistence.monitoring.openlineage_events import Events

logger = logging.getLogger("springline.openlineage")

OpenCatalog = Callable[[str], AbstractContextManager[Catalog]]
_MAKER = "DatasetOperator"  # the type of tasks that make datasets
_PART = "Job"  # what Airflow calls a scheduler, a triggerer or a DAG processor
_PATIENCE = 30.0  # seconds that the scheduler waits for the catalog


class RunListener:
    """Hears of every DAG run in the scheduler, and notes those whose tasks make datasets.

    Where OpenLineage events are wanted, it tells of them, and of those tasks in their own processes.

    The scheduler goes on whatever happens here: Airflow logs an error of a listener. A beginning that
    was missed is noted by the run's first task; an end that was missed runs out with the reader's time.
    """

    def __init__(self, open_catalog: OpenCatalog = opened_catalog) -> None:
        self._open = open_catalog
        self._opened: dict[int, Lineage | None] = {}  # by process: a task's is forked off

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """A part of Airflow starts: the scheduler, for one, or a task in its process, which has no database."""
        if type(component).__name__ == _PART:
            name_codes()
            make_missing()

    @hookimpl
    def on_dag_run_running(self, dag_run: Any, msg: str) -> None:
        """A DAG run began."""
        if makes_datasets(dag_run):
            origin = origin_of(dag_run)
            self._tell(lambda events: events.of_dag_run("START", origin, time.time()))
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
            origin, state = origin_of(dag_run), "COMPLETE" if outcome == "success" else "FAIL"
            self._tell(lambda events: events.of_dag_run(state, origin, time.time()))
            self._aside(lambda catalog: catalog.end_run(origin, outcome))

    @hookimpl
    def on_task_instance_running(self, previous_state: Any, task_instance: Any) -> None:
        """A task began, in its own process."""
        self._tell_task("START", task_instance)

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        """A task ended well."""
        self._tell_task("COMPLETE", task_instance, last=True)

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
        """A task failed, or failed for now."""
        self._tell_task("FAIL", task_instance, str(error or "it failed"), last=True)

    def _tell_task(self, state: str, task_instance: Any, error: str = "", *, last: bool = False) -> None:
        """Tell of a task that makes datasets; `last`: its process ends then."""
        if task_instance.task.task_type != _MAKER:
            return

        def event(events: Events) -> RunEvent:
            dag_run = task_instance.get_template_context()["dag_run"]
            return events.of_task(state, origin_of(dag_run, task_instance.task_id), time.time(), error)

        self._tell(event, last=last)

    def _tell(self, make: Callable[[Events], RunEvent], *, last: bool = False) -> None:
        """Send an OpenLineage event, where the settings want any."""
        process = os.getpid()
        if process not in self._opened:
            self._opened = {process: open_lineage(MonitoringSettings())}
        lineage = self._opened[process]
        if lineage is None:
            return
        try:
            lineage.tell([make(lineage.events)])
        except Exception as error:  # what else is to be noted is noted all the same
            logger.warning("no OpenLineage event: %s: %s", type(error).__name__, redacted(str(error)))
        if last:
            lineage.close()

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
    return any(task.task_type == _MAKER for task in dag_run.get_dag().tasks)
