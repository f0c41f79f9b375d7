"""A real Airflow and a real Spark, started as `make demo` starts them, in a home and on ports of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from springline.persistence.engine.runner import Runner
from springline.persistence.platform import Platform, open_platform
from springline.persistence.private_files import default_cache_folder
from springline.persistence.settings import Settings
from springline.services.airflow_api import AirflowApi
from springline.services.log_files import tail
from springline.services.process.ports import free_ports
from springline.services.registry import make_servers
from springline.services.server import Server
from springline.services.servers.airflow import USER, password
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.services.user_code import BUNDLES, DAGS_FOLDER, PYTHONPATH
from springline.spark_jobs.landing import Landing, land
from tests.support.servers.spark_server import sparing
from tests.support.waiting import until

PAUSED = ("maintenance", "persister")
"""DAGs that run from the start elsewhere; here a test says when."""


@dataclass(frozen=True)
class Live:
    """Real servers in a home of this suite's own."""

    home: Path
    supervisor: Supervisor
    api: AirflowApi
    servers: Mapping[str, Server]
    platform: Platform

    @property
    def environment(self) -> Mapping[str, str]:
        """What Airflow's processes have in their environment."""
        return self.servers["airflow"].environment

    def up(self, name: str) -> None:
        """Start what does not run of a server, as it was started."""
        self.supervisor.up([self.servers[name]], 240)

    @property
    def address(self) -> str:
        """Where Airflow's pages are."""
        return self.environment["AIRFLOW__API__BASE_URL"]

    def finish(self, dag_id: str, runs: Callable[[], Collection[str]], patience: float = 600) -> None:
        """Wait until the states that `runs` gives are all final, and fail unless all are successes."""
        final = {"success", "failed"}
        until(
            lambda: (states := runs()) and set(states) <= final,
            seconds=patience, every=1, reason=lambda: f"{dag_id} has not ended: {runs()}",
        )  # fmt: skip
        assert set(runs()) == {"success"}, self.tails(dag_id)

    def tails(self, dag_id: str) -> str:
        """The ends of the logs of a DAG's tasks."""
        logs = sorted((self.home / "airflow" / "logs" / f"dag_id={dag_id}").rglob("*.log"))
        return "\n".join(tail(log) for log in logs if "error" in log.read_text(errors="replace"))


@contextmanager
def live_airflow(
    home: Path,
    days: Sequence[date],
    *,
    dag_ids: tuple[str, ...],
    more_dags: Path,
    environment: Mapping[str, str],
    runner: Runner,
) -> Iterator[Live]:
    """All servers, until the context ends, with these days landed; `more_dags` is a folder beside the project's."""
    ports = {f"{name}_port": free_ports() for name in ("airflow", "spark_connect", "postgres")}
    settings = ServiceSettings(home=home, **ports)
    with pytest.MonkeyPatch.context() as patch:  # whoever starts them has this environment
        for name, value in environment.items():
            patch.setenv(name, value)
        postgres, spark, plain = make_servers(["postgres", "spark-connect", "airflow"], settings)
    bundles = json.loads(plain.environment[BUNDLES])
    bundles.append({**bundles[0], "name": "tests", "kwargs": {"path": str(more_dags)}})
    more = {
        BUNDLES: json.dumps(bundles),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # seconds; a file that changes is parsed at once
        **{name: value for name, value in environment.items() if name not in (DAGS_FOLDER, PYTHONPATH)},
    }
    airflow = replace(plain, environment={**plain.environment, **more})
    supervisor = Supervisor(home, say=lambda text: None)
    spark = sparing(spark)
    supervisor.up([postgres, spark, airflow], settings.start_timeout)
    api = AirflowApi(airflow.address, USER, password(home))
    platform = open_platform(Settings(home=home), runner=runner)
    land(days, Landing(str(home / "landing")))
    try:
        api.await_dags((*dag_ids, *PAUSED))
        for dag_id in PAUSED:
            api.pause(dag_id, True)
        yield Live(home, supervisor, api, {each.name: each for each in (postgres, spark, airflow)}, platform)
    finally:
        platform.close()
        api.close()
        for name in ("airflow", "spark-connect", "postgres"):
            supervisor.down(name, 3)
        shutil.rmtree(default_cache_folder(home), ignore_errors=True)
        if not postgres.folder.is_relative_to(home):  # of another user, who cannot get into the home
            shutil.rmtree(postgres.folder.parent, ignore_errors=True)
