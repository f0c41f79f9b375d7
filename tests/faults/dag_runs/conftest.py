"""The servers of the Airflow suite, for DAG runs that something goes wrong in."""

from tests.airflow.conftest import _clean_up
from tests.integration.airflow.conftest import coffee, home, live

__all__ = ["_clean_up", "coffee", "home", "live"]
