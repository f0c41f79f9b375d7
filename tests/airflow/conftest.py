"""An Airflow of this suite's own: its home is a temporary folder, chosen before Airflow is imported."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from persistence.platform import Platform, default_cache, open_platform
from persistence.runner import NoRunner
from persistence.settings import Settings
from services.airflow_api import AirflowApi
from services.known import make_servers
from services.launching import tail
from services.ports import free_port
from services.servers.airflow import USER, password
from services.settings import ServiceSettings
from services.supervisor import Supervisor
from spark_jobs.landing import land

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="springline-airflow-"))

# Airflow reads these once, when it is imported; nothing has imported it before this suite is collected.
os.environ.update(
    AIRFLOW_HOME=str(HOME / "airflow"),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
)


@pytest.fixture(scope="session", autouse=True)
def _clean_up():
    yield
    shutil.rmtree(HOME, ignore_errors=True)


@dataclass(frozen=True)
class Live:
    """Real servers in a home of this suite's own."""

    home: Path
    supervisor: Supervisor
    api: AirflowApi
    environment: Mapping[str, str]
    platform: Platform

    def finish(self, dag_id: str, runs: Callable[[], Collection[str]], patience: float = 600) -> None:
        """Wait until the states that `runs` gives are all final, and fail unless all are successes."""
        until = time.monotonic() + patience
        while not (states := runs()) or any(state not in ("success", "failed") for state in states):
            assert time.monotonic() < until, f"{dag_id} has not ended: {states}"
            time.sleep(0.5)
        assert set(states) == {"success"}, self.tails(dag_id)

    def tails(self, dag_id: str) -> str:
        """The ends of the logs of a DAG's tasks."""
        logs = sorted((self.home / "airflow" / "logs" / f"dag_id={dag_id}").rglob("*.log"))
        return "\n".join(tail(log) for log in logs if "error" in log.read_text(errors="replace"))


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """Airflow and Spark Connect, started as `make demo` starts them, on free ports."""
    home = HOME / "live"
    settings = ServiceSettings(home=home, airflow_port=free_port(), connect_port=free_port())
    bundle = {"classpath": "airflow.dag_processing.bundles.local.LocalDagBundle"}
    bundles = [
        {**bundle, "name": "dags-folder", "kwargs": {}},
        {**bundle, "name": "tests", "kwargs": {"path": str(Path(__file__).parent / "live_dags")}},
    ]
    spark, plain = make_servers(["spark-connect", "airflow"], settings)
    more = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles)}
    quiet = {"SPRINGLINE_STREAMS": str(home / "no-streams.toml")}  # a DAG less to be parsed again and again
    airflow = replace(plain, environment={**plain.environment, **more, **quiet})
    supervisor = Supervisor(home, say=lambda text: None)
    supervisor.up([spark, airflow], settings.start_patience)
    api = AirflowApi(airflow.address, USER, password(home))
    platform = open_platform(Settings(home=home), runner=NoRunner())
    land([date(2013, 1, 5), date(2013, 1, 6)], home / "landing")
    try:
        api.await_dags(("etl_lineage", "persister", "trying"))
        yield Live(home, supervisor, api, airflow.environment, platform)
    finally:
        platform.close()
        api.close()
        for name in ("airflow", "spark-connect"):
            supervisor.down(name, 3)
        shutil.rmtree(default_cache(home), ignore_errors=True)
