"""docs/own-airflow.md: an Airflow of somebody's own, with the wheel, its own home and folder of DAGs, no checkout."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from springline.services.packages.java import find_java
from springline.services.process.ports import free_ports
from springline.services.settings import ServiceSettings
from tests.support.installed import Shell, make_environment, page, write_files_of
from tests.support.waiting import until

pytestmark = pytest.mark.nightly("installs the wheel and starts an Airflow with it")

PAGE = page("own-airflow.md")
PATHS = tuple(f"shop/2026-03-02/{name}" for name in ("orders", "priced", "takings"))
PATIENCE = 900.0  # seconds: on an idle machine each thing takes some ten


class OwnAirflow:
    """What the page has started, and its API as the user `admin` sees it."""

    def __init__(self, shell: Shell, port: int) -> None:
        self.shell = shell
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        self.log = shell.folder / "standalone.log"

    def log_in(self) -> bool:
        """Have a token, once the password is there and the API server answers."""
        password_file = self.shell.folder / "airflow" / "simple_auth_manager_passwords.json.generated"
        try:
            login = {"username": "admin", "password": json.loads(password_file.read_text())["admin"]}
            token = self.http.post("/auth/token", json=login).json()["access_token"]
        except (OSError, ValueError, httpx.TransportError):
            return False
        self.http.headers["Authorization"] = f"Bearer {token}"
        return True

    def dags(self) -> set[str]:
        """The ids of the DAGs that have been read; fails with Airflow's words where one cannot be."""
        errors = self.http.get("/api/v2/importErrors").json()["import_errors"]
        assert not errors, errors
        return {dag["dag_id"] for dag in self.http.get("/api/v2/dags").json()["dags"]}

    def states(self) -> dict[str, list[str]]:
        """By path, the states of the datasets of the DAG `shop`."""
        datasets = self.http.get("/springline/api/v1/datasets", params={"dag_id": "shop"}).json()["datasets"]
        return {each["path"]: [each["status"]] for each in datasets}

    def failure_reason(self) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-6_000:]


def blocks(text: str) -> list[str]:
    """The commands that the page shows, block by block."""
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


INSTALL, EXPORT, STANDALONE, TRIGGER, WIPE, STATUS_COMMAND = blocks(PAGE)


def ours(home: Path) -> list[psutil.Process]:
    """The processes that this Airflow has started, by the home in their environment."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == str(home):
                processes.append(process)
        except psutil.Error:  # it ended, or is somebody else's
            continue
    return processes


@pytest.fixture(scope="module")
def shell(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Commands in an environment with what the page installs; its files are there, and its variables are exported."""
    folder = tmp_path_factory.mktemp("own-airflow")
    (extras,) = re.findall(r"^pip install 'springline(\[.*\])'$", INSTALL, re.MULTILINE)
    make_environment(folder / "venv", wheel, extras)
    java = find_java(os.environ, ServiceSettings().home).home
    configured_shell = Shell(folder / "venv", folder, JAVA_HOME=str(java))
    write_files_of(PAGE, folder)
    for line in EXPORT.splitlines():
        configured_shell.export(line)
    return configured_shell


@pytest.fixture(scope="module")
def airflow(shell: Shell) -> Iterator[OwnAirflow]:
    """It runs, on ports of its own, and has read its DAGs."""
    port = free_ports(3)
    shell.environment |= {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(port + 1),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(port + 2),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    own = OwnAirflow(shell, port)
    with own.log.open("wb") as log:
        standalone = subprocess.Popen(
            ["bash", "-c", f"exec {STANDALONE}"], cwd=shell.folder, env=shell.environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    home = shell.folder / "airflow"
    try:
        until(own.log_in, seconds=PATIENCE, every=0.5, reason=own.failure_reason)
        expected = {"shop", "persister", "maintenance", "recover"}
        until(lambda: own.dags() >= expected, seconds=PATIENCE, every=0.5, reason=own.failure_reason)
        yield own
    finally:
        own.http.close()
        os.killpg(standalone.pid, signal.SIGTERM)
        _, left = psutil.wait_procs(ours(home), timeout=20)
        for process in left:
            process.kill()
        standalone.wait(20)
        until(lambda: not ours(home), seconds=20, reason=lambda: f"left behind: {ours(home)}")


@pytest.mark.timeout(3_000)
def test_what_the_page_shows_is_run_persisted_wiped_and_brought_back(airflow: OwnAirflow) -> None:
    """Three operations as tasks of somebody's DAG, and the pages and DAGs of the package beside them."""
    shell = airflow.shell
    shell(TRIGGER)
    persisted = {path: ["persisted"] for path in PATHS}
    until(lambda: airflow.states() == persisted, seconds=PATIENCE, every=2, reason=lambda: f"{airflow.states()}")
    shell.run_examples(PAGE)
    takings = shell.folder / "cache" / PATHS[-1]
    assert list(takings.rglob("*.parquet"))
    shell(WIPE)
    until(lambda: list(takings.rglob("*.parquet")), seconds=PATIENCE, every=0.5, reason=airflow.failure_reason)
    assert airflow.states() == persisted
    pages_are_for_users(airflow)
    # Airflow shows the file that calls for the DAGs of the package as their code.
    dag = airflow.http.get("/api/v2/dags/persister").json()
    assert dag["fileloc"] == str(shell.folder / "dags" / "springline_maintenance.py")


def pages_are_for_users(airflow: OwnAirflow) -> None:
    """The pages are there for those who have logged in; what streams need is named where it is not installed."""
    page_of_lineage = airflow.http.get("/springline/pages/lineage")
    assert page_of_lineage.status_code == 200 and "<title>Lineage · Springline</title>" in page_of_lineage.text
    here = STATUS_COMMAND.replace("http://127.0.0.1:8080", str(airflow.http.base_url).rstrip("/"))
    assert airflow.shell(here) == "401\n"
    streams = airflow.http.get("/springline/api/v1/streams")
    assert streams.status_code == 501 and "pip install 'springline[streams]'" in streams.json()["detail"]
