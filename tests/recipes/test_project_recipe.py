"""What `springline init` makes runs as its README says: the pipeline, the recovery, the tests, the stream, the DAG."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from springline.services.scratch_home import scratch_settings
from tests.support.commands import invoke
from tests.support.installed import environment_of_a_user, run_script

pytestmark = pytest.mark.nightly("all commands of the README of a new project")

run = partial(run_script, options="-euc")  # each line is to end well

DAG_BAG = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print("DAGS", json.dumps([bag.import_errors, {name: sorted(dag.task_ids) for name, dag in bag.dags.items()}]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project, in a folder of its own."""
    folder = tmp_path_factory.mktemp("projects") / "bikes"
    result = invoke("init", str(folder))
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def environment(project: Path) -> dict[str, str]:
    """That of a person who knows of no checkout; only the ports are others than the README's."""
    home = str(project / "var" / "airflow")
    return environment_of_a_user(scratch_settings(project / "var"), Path(sys.executable).parent, AIRFLOW_HOME=home)


def block(project: Path, name: str) -> str:
    """A block of commands of its README."""
    (script,) = re.findall(rf"^```sh {name}\n(.*?)^```$", (project / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(script)


@pytest.mark.timeout(1_200)
def test_the_pipeline_runs_and_its_datasets_are_persisted_let_go_and_brought_back(
    project: Path, environment: dict[str, str]
) -> None:
    """By the settings of `springline.toml`, which are found from any folder of the project."""
    output = run(block(project, "pipeline"), project, environment)
    assert "rides/2026-01-05/stations@1: 3 rows" in output and "2 persisted, 0 remaining" in output
    assert "1 step" in run(block(project, "recover"), project, environment)
    listed = json.loads(run("springline dataset list --json", project / "dags", environment))
    assert sorted((each["dataset"], each["status"]) for each in listed) == [
        (f"rides/2026-01-05/{name}@1", "persisted") for name in ("clean", "load", "stations")
    ]
    assert (project / "var" / "catalog.db").is_file()


def test_its_own_tests_pass_and_its_code_is_in_form(project: Path, environment: dict[str, str]) -> None:
    """Without Spark and servers."""
    assert " passed" in run(block(project, "test"), project, environment)
    run("python -m ruff check --isolated --line-length 160 .", project, environment)


def test_airflow_reads_its_dag(project: Path, environment: dict[str, str]) -> None:
    """Tasks are the operations."""
    settings = {"SPRINGLINE_PROJECT": str(project), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    (project.parent / "read_dags.py").write_text(DAG_BAG)
    folder = shlex.quote(str(project / "dags"))
    script = f"cd /; python {shlex.quote(str(project.parent / 'read_dags.py'))} {folder}"
    output = run(script, project, {**environment, **settings})
    errors, dags = json.loads(output.partition("DAGS ")[2])
    assert errors == {} and dags == {"bikes": ["clean", "load", "stations"]}


@pytest.mark.timeout(1_200)
def test_the_stream_answers_and_the_doctor_is_content_while_kafka_is_up(
    project: Path, environment: dict[str, str]
) -> None:
    """Before it is up, Kafka is the one thing that is missing."""
    missing = subprocess.run(
        ["springline", "doctor", "--json"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert missing.returncode == 3, missing.stdout + missing.stderr
    assert [each["check"] for each in json.loads(missing.stdout) if each["state"] == "problem"] == ["kafka"]
    up, rest = block(project, "stream").split("\n", 1)
    try:
        run(f"{up}\nspringline doctor", project, environment)
        output = run(rest.replace("springline stream results rides", "sleep 4; springline stream results rides --json"),
                   project, environment)  # fmt: skip
    finally:
        run("springline stream stop --kill; springline down", project, environment)
    counted = re.findall(r'"station": "(\w+)",\s+"rides": (\d+)', output)
    assert ("harbour", "2") in counted and ("castle", "1") in counted
