"""A whole Airflow beside a Spark Connect server, as a user with code of their own starts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.airflow.conftest import _clean_up
from tests.support.airflow.live_airflow import Live, live_airflow
from tests.support.datasets.coffee_bar import CoffeeBar, coffee_bar
from tests.support.servers.memory_folders import temporary_home

__all__ = ["_clean_up"]  # and Airflow's home, which is chosen when it is imported


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """Where the servers and the user's code live."""
    with temporary_home("springline-airflow-live-") as folder:
        yield folder


@pytest.fixture(scope="session")
def coffee(home: Path) -> CoffeeBar:
    """A folder of a user's own with operations and a DAG."""
    return coffee_bar(home / "coffee")


@pytest.fixture(scope="session")
def live(home: Path, coffee: CoffeeBar) -> Iterator[Live]:
    """Airflow and Spark Connect, started on free ports as `make demo` starts them."""
    days = [date(2013, 1, 5), date(2013, 1, 6)]
    dag_ids = ("etl_lineage", "trying", "busy", "coffee_daily")
    more_dags = Path(__file__).parent / "dags"
    operations = f"springline.spark_jobs.etl,{coffee.environment['SPRINGLINE_OPERATIONS']}"
    environment = {**coffee.environment, "SPRINGLINE_OPERATIONS": operations}
    with live_airflow(home / "live", days, dag_ids=dag_ids, more_dags=more_dags, environment=environment) as airflow:
        yield airflow
