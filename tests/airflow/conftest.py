"""An Airflow of this suite's own: its home is a temporary folder, chosen before Airflow is imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="springline-airflow-"))

# Airflow reads these once, when it is imported; nothing has imported it before this suite is collected.
os.environ.update(
    AIRFLOW_HOME=str(HOME / "airflow"),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
)


@pytest.fixture(scope="session", autouse=True)
def _clean_up():
    yield
    shutil.rmtree(HOME, ignore_errors=True)
