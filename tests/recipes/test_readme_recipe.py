"""What the README and the FAQ start, in a copy of the checkout: the demo, other days, and the end of all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest

from springline.persistence.profile import project_folder
from springline.services.airflow_api import AirflowApi
from springline.services.scratch_home import scratch_settings
from springline.services.servers.airflow import USER, password
from springline.services.settings import ServiceSettings
from tests.support.installed import environment_of_a_user, run_script
from tests.support.servers.memory_folders import remove_memory_of
from tests.support.waiting import until

pytestmark = pytest.mark.nightly("all commands of the README in a copy of the checkout")

README, FAQ = project_folder() / "README.md", project_folder() / "docs" / "faq.md"


@pytest.fixture(scope="module")
def copy() -> Iterator[Path]:
    """The files of the checkout in another folder; its Python and jars are those that are here already."""
    folder = Path(tempfile.mkdtemp(prefix="springline-readme-", dir="/tmp"))
    folder.chmod(0o711)  # PostgreSQL runs as another user where root starts it
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=project_folder(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (source := project_folder() / name).is_file() or source.is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name, follow_symlinks=False)  # with its time: nothing is installed again
    (folder / ".venv").symlink_to(Path(sys.prefix))
    yield folder
    remove_memory_of(folder / "var")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def settings(copy: Path) -> ServiceSettings:
    """Ports of its own."""
    return scratch_settings(copy / "var")


@pytest.fixture(scope="module")
def environment(copy: Path, settings: ServiceSettings) -> dict[str, str]:
    """That of a person who has activated the environment of this copy; only the ports are others than the README's."""
    # What is installed leads to the checkout itself.
    return environment_of_a_user(settings, copy / ".venv" / "bin", PYTHONPATH=str(copy / "src"))


def shown(document: Path, heading: str) -> list[str]:
    """The blocks of shell in a section of a document."""
    section = document.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def states(api: AirflowApi) -> dict[str, str]:
    """The DAG runs of the other days."""
    return api.runs("etl_lineage", date(2013, 1, 8), date(2013, 1, 10))


def backfilled(api: AirflowApi) -> bool:
    """Whether each of the other days has a DAG run, and a dataset has been made in one of them."""
    states_by_run = states(api)
    assert "failed" not in states_by_run.values(), states_by_run
    return len(states_by_run) == 3 and any(
        task.state == "success" for run_id in states_by_run for task in api.tasks("etl_lineage", run_id)
    )


def dag_run_of(answer: str) -> dict[str, Any] | None:
    """The backfill that Airflow has made, if it has."""
    dag_run: dict[str, Any] = json.loads(answer)
    return dag_run if "dag_run_conf" in dag_run else None


def ours(copy: Path) -> list[psutil.Process]:
    """The processes that work in the copy."""
    here = str(copy)
    everything = psutil.process_iter(["cmdline", "cwd"])
    return [each for each in everything if here in " ".join([*(each.info["cmdline"] or ()), each.info["cwd"] or ""])]


@pytest.mark.timeout(1_800)  # all that the README starts
def test_what_the_readme_starts_runs_as_it_stands(
    copy: Path, settings: ServiceSettings, environment: dict[str, str]
) -> None:
    """In its order, but for what has tests of its own: the fault, `make test`, and questions to the demo's streams."""
    demo, fault, tests, stop = shown(README, "Quick start")[0].splitlines()
    assert fault.startswith("make demo-fault ") and tests.startswith("make test ")
    land, by_command = shown(README, "Run other days")[0].splitlines()
    (by_rest,) = shown(FAQ, "How do I run a backfill?")
    try:
        assert "`make stop` stops everything." in run_script(demo, copy, environment, 1_000)
        address = f"http://127.0.0.1:{settings.airflow_port}"
        api = AirflowApi(address, USER, password(settings.home))
        assert "2013-01-10/flights.csv: " in run_script(land, copy, environment, 60)
        run_script(by_command, copy, environment, 120)
        until(lambda: backfilled(api), seconds=400, every=1, reason=lambda: f"the days run: {states(api)}")
        api.end_backfills("etl_lineage")
        ask_token, use_token = by_rest.replace("http://127.0.0.1:8080", address).split("TOKEN=…", 1)
        ask_token = ask_token.replace("the one that the demo printed", password(settings.home))
        token = json.loads(run_script(ask_token, copy, environment, 60))["access_token"]
        begin = f"TOKEN={token} {use_token}"
        # Airflow counts the backfill before as one that runs for a moment after its last run.
        dag_run = until(
            lambda: dag_run_of(run_script(begin, copy, environment, 60)), every=1, reason=lambda: "it is refused"
        )
        assert dag_run["dag_id"] == "etl_lineage" and dag_run["dag_run_conf"] == {"strategy": "async_store"}
        api.end_backfills("etl_lineage")
    finally:
        stopped = subprocess.run(
            ["bash", "-c", stop], cwd=copy, env=environment, capture_output=True, text=True, timeout=400
        )
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    until(lambda: not ours(copy), reason=lambda: f"left behind: {ours(copy)}")
