"""The servers of the tests of Airflow's pages, for DAG runs that something goes wrong in."""

from tests.airflow.conftest import _clean_up
from tests.e2e.airflow.conftest import coffee, home, kafka, live

__all__ = ["_clean_up", "coffee", "home", "kafka", "live"]
