"""A real Airflow and a real Spark, started as `make demo` starts them, in a home and on ports of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from persistence.platform import Platform, default_cache, open_platform
from persistence.runner import NoRunner, Runner
from persistence.settings import Settings
from services.airflow_api import AirflowApi
from services.known import make_servers
from services.launching import tail
from services.ports import free_ports
from services.servers.airflow import USER, password
from services.settings import ServiceSettings
from services.supervisor import Supervisor
from spark_jobs.landing import land
from tests.support.waiting import until


@dataclass(frozen=True)
class Live:
    """Real servers in a home of this suite's own."""

    home: Path
    supervisor: Supervisor
    api: AirflowApi
    environment: Mapping[str, str]
    platform: Platform

    @property
    def address(self) -> str:
        """Where Airflow's pages are."""
        return self.environment["AIRFLOW__API__BASE_URL"]

    def finish(self, dag_id: str, runs: Callable[[], Collection[str]], patience: float = 600) -> None:
        """Wait until the states that `runs` gives are all final, and fail unless all are successes."""
        final = {"success", "failed"}
        until(
            lambda: (states := runs()) and set(states) <= final,
            seconds=patience, every=0.5, why=lambda: f"{dag_id} has not ended: {runs()}",
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
    more_dags: Path | None = None,
    environment: Mapping[str, str] | None = None,
    runner: Runner | None = None,
) -> Iterator[Live]:
    """All servers, until the context ends, with these days landed; `more_dags` is a folder beside the project's.

    Airflow's own database is PostgreSQL: on a busy machine Airflow fails now and then on a SQLite that is locked.
    """
    ports = {f"{name}_port": free_ports() for name in ("airflow", "connect", "postgres")}
    settings = ServiceSettings(home=home, airflow_database="postgres", **ports)
    bundle = {"classpath": "airflow.dag_processing.bundles.local.LocalDagBundle"}
    bundles = [{**bundle, "name": "dags-folder", "kwargs": {}}]
    if more_dags:
        bundles.append({**bundle, "name": "tests", "kwargs": {"path": str(more_dags)}})
    postgres, spark, plain = make_servers(["postgres", "spark-connect", "airflow"], settings)
    more = {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "SPRINGLINE_STREAMS": str(home / "no-streams.toml"),  # a DAG less to be parsed again and again
        **(environment or {}),
    }
    airflow = replace(plain, environment={**plain.environment, **more})
    supervisor = Supervisor(home, say=lambda text: None)
    supervisor.up([postgres, spark, airflow], settings.start_patience)
    api = AirflowApi(airflow.address, USER, password(home))
    platform = open_platform(Settings(home=home), runner=runner or NoRunner())
    land(days, home / "landing")
    try:
        api.await_dags(dag_ids)
        yield Live(home, supervisor, api, airflow.environment, platform)
    finally:
        platform.close()
        api.close()
        for name in ("airflow", "spark-connect", "postgres"):
            supervisor.down(name, 3)
        shutil.rmtree(default_cache(home), ignore_errors=True)
        if not postgres.folder.is_relative_to(home):  # of another user, who cannot get into the home
            shutil.rmtree(postgres.folder.parent, ignore_errors=True)
