"""Secrets are never shown: not in logs, errors, the catalog, heartbeats, lists of processes or of settings."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import urllib3
from pydantic_settings import SettingsError

from springline import cli
from springline.persistence.backends.hdfs_filesystem import WebHdfs
from springline.persistence.catalog.database import open_database
from springline.persistence.errors import PersistenceError
from springline.persistence.model.dataset import Strategy
from springline.persistence.monitoring.settings import MonitoringSettings
from springline.persistence.platform import Platform
from springline.persistence.profile import ProfiledSettings
from springline.persistence.project import ProjectError
from springline.persistence.settings import Settings
from springline.persistence.text.redaction import redact_secrets
from springline.services.errors import ServiceError
from springline.services.packages.jars import Jars
from springline.services.packages.java import ServerJava
from springline.services.process.ports import describe_process, free_ports, holder
from springline.services.registry import SERVERS, make_servers
from springline.services.settings import ServiceSettings
from springline.spark_jobs.errors import JobError, SparkUnavailableError
from springline.spark_jobs.session import Address
from springline.spark_jobs.settings import JobSettings
from springline.spark_jobs.streaming.application.application import HeartbeatWriter
from springline.spark_jobs.streaming.errors import LogUnavailableError
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from springline.spark_jobs.streaming.kafka.log import Kafka
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.spark_jobs.streaming.sources.settings import SchemaRegistrySettings
from springline.testing.lines import make_dataset as make

SECRET = "hunter2"
PASSWORD_OPTION = f'{{"password": "{SECRET}"}}'


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://ann:hunter2@db:5432/catalog",
        "postgresql+psycopg://ann:hunter2/or@hunter2@db/catalog",
        "postgresql+psycopg://:hunter2@db/catalog",
        "postgresql+psycopg://ann@server:hunter2@db/catalog",
        "postgresql+psycopg://ann:hunter2@hunter2@db/catalog",
        "postgresql+psycopg://ann@db/catalog?password=hunter2&sslmode=require",
        "postgresql+psycopg://ann@db/catalog?sslpassword=hunter2",
        "sc://host:15002/;token=hunter2;user_id=ann",
        "/webhdfs/v1/a?op=GETFILESTATUS&delegation=hunter2",
        "{'sasl.username': 'ann', 'sasl.password': 'hunter2, and more hunter2'}",
        '{"sasl.password": "hunter2", "ssl.key.password": "hunter2"}',
        r"{\"sasl.password\": \"hunter2 hunter2\"}",
        "sasl.jaas.config=x.PlainLoginModule required username='ann' password='hunter2 hunter2';",
        "SPRINGLINE_HDFS_TOKEN=hunter2",
        "spark.hadoop.fs.s3a.access.key=hunter2 spark.hadoop.fs.s3a.secret.key=hunter2",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        "fernet_key = hunter2",
        "Authorization: Bearer hunter2hunter2",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2",
        "DSN password=hunter2\nhost=db",
    ],
)
def test_a_secret_is_left_out(text: str) -> None:
    """However it is written."""
    assert SECRET not in redact_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://127.0.0.1:8020/springline/etl/2013-01-05/clean/@3-1",
        "alluxio://host:19998/springline/a/@3, hdfs://host:8020/springline/a/@3-1",
        '{"url": "http://127.0.0.1:8080", "dataset": "a@1"}',
        "http://127.0.0.1:4318, a@1",
        "postgresql://springline@127.0.0.1:5432/springline?passfile=/home/.pgpass",
        "tokens: many; a key of 64 bits; 12:30 a@1",
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092",
        "key=flights, round=3",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Places of copies look nearly like a login."""
    assert redact_secrets(text) == text


# ---- addresses with secrets in them


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:hunter2@db:port/catalog",
        "postgresql+psycopg://ann:x@hunter2:hunter2/catalog",
        "postgresql+psycopg://ann:x@hunter2@127.0.0.1:1/catalog?connect_timeout=1",
        "postgresql+psycopg://ann:x/y@hunter2@127.0.0.1:1/catalog?connect_timeout=1",
        "hunter2",
        "postgresql+psycopg://ann:hunter2@127.0.0.1:1/catalog?connect_timeout=1",
        "postgresql+psycopg://ann@127.0.0.1:1/catalog?password=hunter2&connect_timeout=1",
        "nosuch://ann:hunter2@db/catalog",
    ],
)
def test_a_catalog_that_cannot_be_opened_does_not_reveal_its_password(tmp_path: Path, url: str) -> None:
    """The error is shown; nothing that was given."""
    with pytest.raises(Exception) as refused:
        open_database(Settings(home=tmp_path, catalog_url=url).catalog_address)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "remote",
    [
        "http://host:15002/;token=hunter2",
        "sc://host:15002;token=hunter2",
        "sc://host:port/;token=hunter2",
        "sc:///;token=hunter2",
        "sc://[;token=hunter2",
        "sc://ann:hunter2@/",
        "token=hunter2",
        "127.0.0.1:15002",
    ],
)
def test_an_address_of_spark_that_is_wrong_does_not_reveal_its_token(remote: str) -> None:
    """The error names the setting and says how an address is written."""
    message = "SPRINGLINE_SPARK_REMOTE=.*write the address as sc://host:port"
    with pytest.raises(SparkUnavailableError, match=message) as refused:
        Address.parse(remote)
    assert SECRET not in str(refused.value)


def test_the_token_of_webhdfs_is_in_no_log_and_no_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is part of every address that is asked, and libraries log those."""
    monkeypatch.setattr(urllib3.Retry, "sleep", lambda *_: None)
    web = WebHdfs(f"http://127.0.0.1:{free_ports()}", token=SECRET)
    with caplog.at_level(logging.DEBUG):
        assert web.file_checksum("/a") == {}
    assert any(record.name.startswith("urllib3") for record in caplog.records), "nothing was logged that could tell it"
    assert any("/a: read back" in record.message for record in caplog.records)
    assert SECRET not in caplog.text


def test_kafkas_password_is_in_no_error_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the broker is away."""
    monkeypatch.setattr("springline.spark_jobs.streaming.kafka.log._DESCRIBED_SECONDS", 0.2)
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
    cluster = Cluster(f"127.0.0.1:{free_ports()}", {**options, "sasl.password": SECRET})
    log = Kafka(cluster, timeout=0.2)
    with pytest.raises(LogUnavailableError) as refused:
        log.offset_bounds("topic")
    log.close()
    assert SECRET not in str(refused.value) + repr(cluster)


# ---- settings


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Settings, {"SPRINGLINE_POLICY": "none", "SPRINGLINE_CATALOG_URL": f"postgresql://a:{SECRET}@b/c"}),
        (Settings, {"SPRINGLINE_POLICY_WEIGHTS": SECRET}),
        (Settings, {"SPRINGLINE_CACHE_REPLACEMENT": SECRET}),
        (ServiceSettings, {"SPRINGLINE_HDFS_DATANODES": "1", "SPRINGLINE_AIRFLOW_DATABASE": f"p://a:{SECRET}@b/c"}),
        (ServiceSettings, {"SPRINGLINE_KAFKA_PORT": f"http://a:{SECRET}@b"}),
        (JobSettings, {"SPRINGLINE_SPARK_CONF": f'{{"spark.ssl.keyPassword": "{SECRET}"'}),
        (StreamSettings, {"SPRINGLINE_KAFKA_OPTIONS": f'{{"sasl.password": ["{SECRET}"]}}'}),
        (StreamSettings, {"SPRINGLINE_STREAM_TASKS_PER_STAGE": "0", "SPRINGLINE_KAFKA_OPTIONS": PASSWORD_OPTION}),
        (SchemaRegistrySettings, {"SPRINGLINE_SCHEMA_REGISTRY_OPTIONS": f'{{"basic.auth.user.info": ["{SECRET}"]}}'}),
        (MonitoringSettings, {"SPRINGLINE_OTLP_ENDPOINT": f"ftp://a:{SECRET}@b"}),
        (MonitoringSettings, {"SPRINGLINE_OTLP_ENDPOINT": f"http://a:x@{SECRET}@b"}),
        (ServiceSettings, {"SPRINGLINE_AIRFLOW_URL": f"http://a:x@{SECRET}@b/c"}),
    ],
)
def test_a_wrong_setting_is_named_and_not_repeated(
    kind: type[ProfiledSettings], wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor are those beside it that are right."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as refused:
        kind()
    assert SECRET not in str(refused.value)


def test_the_tokens_among_the_settings_are_not_shown() -> None:
    """Nor anything of the kind that is added later: a setting of such a name hides its value."""
    for kind in (Settings, JobSettings, StreamSettings, MonitoringSettings, ServiceSettings):
        for name, field in kind.model_fields.items():
            if any(word in name.split("_") for word in ("password", "token", "key", "secret")):
                assert "SecretStr" in str(field.annotation), name


# ---- what ends a command


@pytest.mark.parametrize(
    "kind", [PersistenceError, JobError, ServiceError, SettingsError, ProjectError, ValueError, RuntimeError]
)
def test_an_error_that_ends_a_command_is_printed_without_secrets(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a line where it was foreseen, else in a traceback: an error of Python's own is a bug, not misuse."""

    def broken(**_: Any) -> None:
        raise kind("postgresql://ann:hunter2@db is away; token=hunter2")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    captured = capsys.readouterr()
    assert exit_info.value.code == (2 if kind in (SettingsError, ProjectError) else 1)
    assert SECRET not in captured.out + captured.err
    assert "postgresql://ann:***@db is away" in captured.err
    assert ("Traceback" in captured.err) is (kind in (ValueError, RuntimeError))


# ---- what is kept


def test_the_catalog_keeps_no_secret_of_an_error(platform: Platform) -> None:
    """Neither as the reason of a change nor as the error of a dataset; the pages show both."""
    with pytest.raises(RuntimeError), platform.store.write("a", strategy=Strategy.CACHE_ONLY) as writing:
        raise RuntimeError("s3a://ann:hunter2@bucket is away")
    dataset = make(platform, "b", lines=["x"], strategy=Strategy.ASYNC_STORE)
    (choice,) = platform.persister.candidates()
    lease = platform.claims.claim(dataset.ref, "somebody", choice.plan.method, None)
    assert lease is not None
    platform.claims.release(lease, "delegation=hunter2 has expired")
    entries = json.dumps([str(moment) for moment in platform.catalog.history()])
    entries += "".join(platform.catalog.get(ref).error for ref in (writing.ref, dataset.ref))
    assert SECRET not in entries and "ann:***@bucket" in entries and "delegation=***" in entries


def test_a_heartbeat_reveals_no_secret(tmp_path: Path) -> None:
    """The API and the pages show its error."""
    folder = JobFolder(tmp_path)
    folder.path.mkdir(exist_ok=True)
    HeartbeatWriter("job", folder).write("failed", "sasl.password=hunter2 was refused")
    assert (folder.heartbeat() or {})["error"] == "sasl.password=*** was refused"


# ---- processes


@pytest.mark.parametrize("name", SERVERS)
def test_no_secret_is_among_the_arguments_of_a_server(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody on the machine can list them; what is shown of a server has none either."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    database = f"postgresql+psycopg://ann:{SECRET}@db/airflow"
    (server,) = make_servers([name], ServiceSettings(home=tmp_path, airflow_database=database))
    arguments = [server.address, *(word for each in (*server.processes, *server.init_steps) for word in each.command)]
    assert SECRET not in " ".join(arguments)
    assert not any(word.lower().startswith(("-dpassword", "--password")) for word in arguments)


def test_who_has_a_port_is_reported_without_its_secrets() -> None:
    """A stranger's process may have one among its arguments."""
    port = free_ports()
    listen = f"s = socket.create_server(('127.0.0.1', {port}))"
    script = f"import socket, time; {listen}; print(1, flush=True); time.sleep(600)"
    stranger = subprocess.Popen([sys.executable, "-c", script, "--password=hunter2"], stdout=subprocess.PIPE)
    try:
        assert stranger.stdout is not None and stranger.stdout.readline()
        assert SECRET in " ".join(psutil.Process(stranger.pid).cmdline())
        pid = holder(port)
        assert pid == stranger.pid
        description = describe_process(pid)
    finally:
        stranger.kill()
        stranger.wait()
    assert f"process {stranger.pid}" in description and SECRET not in description


def test_the_repositorys_password_is_in_no_log_and_in_no_file_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ivy prints the address that it asks; its settings are their owner's alone, and gone with it."""
    address = f"https://ann:{SECRET}@repository/maven"
    folder = tmp_path / "jars"
    jars = Jars(ServiceSettings(home=tmp_path, jars_dir=str(folder), maven_repository=address), say=lambda _: None)
    settings = folder / "kafka.half" / "ivysettings.xml"
    commands: list[list[str]] = []

    class Ivy:
        """Prints what it asks, and fetches nothing."""

        returncode = 1

        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)
            assert SECRET in settings.read_text() and settings.stat().st_mode & 0o077 == 0
            self.stdout = iter([f":: problems :: {address}/kafka.pom: unauthorised\n"])

        def __enter__(self) -> Ivy:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("springline.services.packages.jars.find_java", lambda *_: ServerJava(tmp_path, 17, "none"))
    monkeypatch.setattr("springline.services.packages.jars.subprocess.Popen", Ivy)
    with pytest.raises(ServiceError) as refused:
        jars.folder("kafka")
    assert SECRET not in str(refused.value) + " ".join(commands[0])
    assert SECRET not in (folder / "kafka.log").read_text()
    assert not settings.exists()
