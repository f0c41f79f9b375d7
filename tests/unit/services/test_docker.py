"""The containers: on the files of services/conf, with secrets from outside, watched, restarted, and never as root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from springline.persistence.profile import project_folder
from springline.persistence.settings import Settings
from springline.services.registry import make_servers
from springline.services.server import Server
from springline.services.servers.airflow import airflow
from springline.services.settings import ServiceSettings
from springline.spark_jobs.settings import JobSettings

DOCKER = project_folder() / "docker"
FILE = DOCKER / "compose.yaml"
SECRETS = ("POSTGRES_PASSWORD", "AIRFLOW_ADMIN_PASSWORD", "AIRFLOW_JWT_SECRET", "AIRFLOW_FERNET_KEY")
CONF = project_folder() / "services" / "conf"


def read() -> dict:
    """The file with its anchors laid in."""
    return yaml.safe_load(FILE.read_text())


def lasting() -> dict:
    """The services that go on running."""
    return {name: each for name, each in read()["services"].items() if each.get("restart") == "unless-stopped"}


def volumes() -> list[str]:
    """All that is mounted into any container."""
    return [volume for each in read()["services"].values() for volume in each.get("volumes", ())]


def test_every_part_of_the_platform_has_a_container():
    """Airflow with all of its parts, Spark, Kafka, HDFS with two DataNodes, Alluxio, PostgreSQL."""
    airflow_parts = {f"airflow-{part}" for part in ("api-server", "scheduler", "dag-processor", "triggerer")}
    alluxio_parts = {f"alluxio-{part}" for part in ("master", "job-master", "worker", "job-worker", "proxy")}
    spark_parts = {"spark-master", "spark-worker", "spark-connect"}
    others = {"postgres", "kafka", "namenode", "datanode-1", "datanode-2"}
    assert lasting().keys() == airflow_parts | alluxio_parts | spark_parts | others


def test_whatever_goes_on_running_is_watched_restarted_and_not_root():
    """A container that only runs once may be root."""
    for name, each in lasting().items():
        assert each["healthcheck"]["test"], name
        assert each["user"].partition(":")[0] not in ("", "0", "root"), name


def test_no_container_has_more_rights_than_it_needs():
    """Those that only run once neither; `folders` may give folders to their owners, and has no network."""
    for name, each in read()["services"].items():
        assert each["cap_drop"] == ["ALL"] and "no-new-privileges:true" in each["security_opt"], name
        assert not each.keys() & {"privileged", "devices", "pid", "ipc", "userns_mode", "group_add", "cgroup"}, name
        assert each.get("network_mode", "none") == "none", name
        assert not any("docker.sock" in volume or volume.startswith("/") for volume in each.get("volumes", ())), name
    added = {name: each["cap_add"] for name, each in read()["services"].items() if "cap_add" in each}
    assert added == {"folders": ["CHOWN", "DAC_OVERRIDE"]}
    assert {name for name, each in read()["services"].items() if each.get("read_only")} == {"folders", "postgres"}


def test_nothing_but_airflows_pages_can_be_reached_from_the_host_and_those_from_this_machine_alone():
    """A port without an address would be open to everybody, past the host's firewall."""
    ports = {name: each["ports"] for name, each in read()["services"].items() if "ports" in each}
    assert ports == {"airflow-api-server": ["127.0.0.1:8080:8080"]}
    assert not re.search(r"^(EXPOSE|VOLUME|ADD)\b", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)


def test_each_secret_goes_only_where_it_is_used():
    """Spark runs operations of anybody's: it knows neither the catalog's password nor Airflow's keys."""
    where = {secret: set() for secret in SECRETS}
    for name, each in read()["services"].items():
        text = yaml.safe_dump(each)
        for secret in SECRETS:
            if f"${{{secret}" in text:
                where[secret].add(name)
        assert not any(f"${{{secret}" in yaml.safe_dump(each.get("command", "")) for secret in SECRETS), name
    parts = {name for name in read()["services"] if name.startswith("airflow-")}
    assert where == {**dict.fromkeys(SECRETS, parts), "POSTGRES_PASSWORD": parts | {"postgres"}}


def test_no_file_of_secrets_is_kept_with_the_code():
    """Neither by git nor in the image."""
    assert ".env" in (project_folder() / ".gitignore").read_text().splitlines()
    let_in = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert let_in[0] == "*" and not any("env" in line for line in let_in)
    assert "ARG" not in (DOCKER / "Dockerfile").read_text() and "SECRET" not in (DOCKER / "Dockerfile").read_text()


def test_the_password_of_airflow_is_in_a_file_of_its_owner_and_in_no_environment_that_goes_on(tmp_path):
    """The part that is started does not know it any more."""
    (tmp_path / "airflow").write_text('#!/bin/sh\nenv > "$TOLD"\n')
    (tmp_path / "airflow").chmod(0o755)
    file = tmp_path / "passwords.json"
    environment = {
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin", "TOLD": str(tmp_path / "told"),
        "AIRFLOW_ADMIN_PASSWORD": "hunter2", "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(file),
    }  # fmt: skip
    subprocess.run([DOCKER / "airflow-part", "scheduler"], env=environment, check=True)
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text() == '{"admin": "hunter2"}'
    assert "hunter2" not in (tmp_path / "told").read_text()


def test_every_image_has_a_version():
    """None is `latest`, in the file of the image neither."""
    for name, each in read()["services"].items():
        assert re.fullmatch(r"[\w/.-]+:\d+\.\d+(\.\d+)?(-\w+)?", each["image"]), name
    (base,) = re.findall(r"^FROM (\S+)", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)


def test_no_secret_has_a_default_and_the_example_names_them_all():
    """Unset, the start fails and says what to do."""
    text = FILE.read_text()
    assert set(re.findall(r"(?<!\$)\$\{(\w+)", text)) == set(SECRETS)
    assert set(re.findall(r"(?<!\$)\$\{\w+(.*?)\}", text)) == {":?set it in docker/.env"}
    example = re.findall(r"^(\w+)=(.*)$", (DOCKER / ".env.example").read_text(), flags=re.MULTILINE)
    assert dict(example) == dict.fromkeys(SECRETS, "")


def test_the_servers_read_the_files_of_services_conf():
    """The very same as without containers: what is mounted is there, and each server's folder is mounted.

    What is stored is in a volume that is declared, and every volume that is declared is used.
    """
    mounts = [volume for volume in volumes() if volume.startswith(".")]
    paths = {(DOCKER / mount.split(":")[0]).resolve() for mount in mounts}
    assert all(path.exists() for path in paths) and all(":ro" in mount for mount in mounts)
    expected = {CONF / name for name in ("hdfs", "kafka", "postgres", "alluxio/alluxio-site.properties")}
    assert {path for path in paths if path.is_relative_to(CONF)} == expected
    assert {volume.split(":")[0] for volume in volumes() if volume not in mounts} == read()["volumes"].keys()


@pytest.mark.parametrize(
    ("file", "containers"),
    [
        ("kafka/server.properties", ("kafka",)),
        ("hdfs/core-site.xml", ("namenode", "datanode-1", "datanode-2")),
        ("hdfs/hdfs-site.xml", ("namenode", "datanode-1", "datanode-2")),
    ],
)
def test_a_server_is_given_all_that_its_files_take_from_the_environment(file, containers, tmp_path):
    """Each process and each container of it: none is left empty."""
    variables = set(re.findall(r"\$\{env[.:](\w+)\}", (CONF / file).read_text()))
    assert variables
    for name in containers:
        assert variables <= read()["services"][name]["environment"].keys()
    (server,) = make_servers([file.partition("/")[0]], ServiceSettings(home=tmp_path, hdfs_datanodes=3))
    for process in server.processes:
        assert variables <= {*server.environment, *process.environment}


def test_airflow_has_the_same_settings_as_without_containers(tmp_path):
    """What is set there is set here, but for how the key of the tokens is handed over."""
    without: Server = airflow(ServiceSettings(home=tmp_path))
    expected = {key for key in without.environment if key.startswith("AIRFLOW_")} - {"AIRFLOW_HOME"}
    environment = read()["services"]["airflow-scheduler"]["environment"].keys()
    assert expected - environment == {"AIRFLOW__API_AUTH__JWT_SECRET_CMD"}


def test_every_setting_that_is_given_is_one():
    """An unused name would be an unnoticed mistake."""
    declared = {*Settings.model_fields, *JobSettings.model_fields, *ServiceSettings.model_fields}
    text = FILE.read_text() + (DOCKER / "Dockerfile").read_text()
    assert {name.lower() for name in re.findall(r"(?<!CONN_)SPRINGLINE_([A-Z_]+)[:=]", text)} <= declared


def test_waiting_ends_somewhere():
    """No service waits for one that does not exist, or for itself."""
    services = read()["services"]
    waits = {name: set(each.get("depends_on", {})) for name, each in services.items()}
    assert {other for others in waits.values() for other in others} <= services.keys()
    while waits:
        free = {name for name, others in waits.items() if not others & waits.keys()}
        assert free, f"these wait for each other: {', '.join(waits)}"
        waits = {name: others for name, others in waits.items() if name not in free}


def test_the_image_holds_what_its_file_copies():
    """What is copied is there, and is not left out of what the builder is sent."""
    copied = re.findall(r"^COPY (?:--chown=\S+ )?(\S+) ", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    let_in = re.findall(r"^!(.+)$", (DOCKER / "Dockerfile.dockerignore").read_text(), flags=re.MULTILINE)
    assert copied == let_in
    assert {"alerts.toml", "streams.toml"} <= set(copied)
    assert all((project_folder() / path).exists() for path in copied)
    assert os.access(DOCKER / "airflow-part", os.X_OK)


def test_the_linter_of_dockerfiles_finds_nothing():
    """hadolint, from PyPI."""
    linter = Path(sys.executable).parent / "hadolint"
    completed_process = subprocess.run([linter, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (completed_process.returncode, completed_process.stdout) == (0, "")


def test_compose_itself_takes_the_file(tmp_path):
    """Where Docker's compose is installed; with a secret missing it refuses, and names it."""
    docker = ["docker", "compose", "version"]
    if shutil.which("docker") and not subprocess.run(docker, capture_output=True, check=False).returncode:
        compose, file = ["docker", "compose"], FILE
    elif shutil.which("docker-compose"):  # the older one, which knows no name at the top
        compose, file = ["docker-compose"], tmp_path / "compose.yaml"
        file.write_text(FILE.read_text().replace("name: springline\n", ""))
    else:
        pytest.skip("no docker compose here")
    command = [*compose, "--project-directory", str(DOCKER), "-f", str(file), "config", "--quiet"]
    environment = {**os.environ, **dict.fromkeys(SECRETS, "x")}
    completed_process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (completed_process.returncode, completed_process.stderr) == (0, "")
    refused = subprocess.run(command, env={**environment, SECRETS[0]: ""}, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and SECRETS[0] in refused.stderr
