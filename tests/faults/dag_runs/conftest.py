"""Airflow and Spark Connect for DAG runs that something goes wrong in: nothing waits for a default of minutes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from springline.persistence.engine.runner import NoRunner
from tests.airflow.conftest import _clean_up
from tests.support.airflow.live_airflow import Live, live_airflow
from tests.support.servers.memory_folders import temporary_home

__all__ = ["_clean_up"]  # and Airflow's home, which is chosen when it is imported

DAY = date(2013, 1, 5)
QUICK = {
    "SPRINGLINE_OPERATIONS": "springline.spark_jobs.etl",
    "SPRINGLINE_RETRY_SECONDS": "0.5",
    # The tasks of a killed scheduler are restarted once it has sent no heartbeat for so many seconds.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",  # the loop of a busy machine takes seconds
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "2",
    "AIRFLOW__OPENLINEAGE__DISABLED": "True",
    "SPRINGLINE_STREAMS_FILE": "no-streams.toml",  # a DAG less
}


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """Airflow and Spark Connect, with the DAG `loading`; the DAG `persister` is paused."""
    dags = Path(__file__).parent / "dags"
    with (
        temporary_home("springline-airflow-faults-") as home,
        live_airflow(
            home / "live", [DAY], dag_ids=("loading",), more_dags=dags, environment=QUICK, runner=NoRunner()
        ) as airflow,
    ):
        airflow.api.pause("loading", False)
        yield airflow
