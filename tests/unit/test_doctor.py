"""`springline doctor`: what is missing, each with its remedy; what it looks at is left as it is."""

from __future__ import annotations

import json
import socket
import time
from collections import namedtuple
from pathlib import Path

import pytest

from springline.doctor import machine
from springline.doctor.findings import FindingState, ok
from springline.doctor.servers import check_catalog, check_kafka, check_store, connection_error, run_checks
from springline.persistence.catalog.catalog import Catalog
from springline.persistence.settings import Settings
from springline.spark_jobs.streaming.kafka.cluster import Cluster
from tests.support.commands import invoke

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is not there yet, in a folder without a project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", "")
    monkeypatch.setenv("SPRINGLINE_DEMO_SERVERS", "")
    return tmp_path / "home"


def problems(*arguments: str) -> dict[str, str]:
    """By message, the remedies of the problems that a command reports; it ends with 3 if there are any."""
    result = invoke(*arguments, "--json")
    remedies = {each["message"]: each["remedy"] for each in json.loads(result.stdout) if each["state"] == "problem"}
    assert result.exit_code == (3 if remedies else 0), result.output
    return remedies


def test_every_problem_has_a_remedy_and_nothing_is_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the home is made."""
    monkeypatch.setenv("SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    remedies = problems("doctor")
    assert "127.0.0.1:1 does not answer: Connection refused" in remedies and all(remedies.values())
    assert not home.exists()


@pytest.mark.usefixtures("home")
def test_a_misspelt_setting_a_wrong_value_and_a_file_that_is_not_there_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Together, each with what to do."""
    monkeypatch.setenv("SPRINGLINE_POLCY", "lrc")
    monkeypatch.setenv("SPRINGLINE_SPARK_CONNECT_PORT", "many")
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "nothing.toml"))
    monkeypatch.setenv("SPRINGLINE_OPERATIONS", "no_such_module")
    remedies = problems("config", "check")
    misspelt = "environment: SPRINGLINE_POLCY is not a setting and has no effect"
    assert remedies[misspelt] == "did you mean SPRINGLINE_POLICY?"
    assert any(each.startswith("SPRINGLINE_SPARK_CONNECT_PORT: ") for each in remedies)
    assert f"SPRINGLINE_STREAMS_FILE={tmp_path}/nothing.toml does not exist" in remedies
    assert any("no module 'no_such_module'" in each for each in remedies)


@pytest.mark.usefixtures("home")
def test_files_that_cannot_be_read_are_reported_with_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stream jobs and rules of alerts."""
    (tmp_path / "s.toml").write_text('[a]\ntopic = "t"\nodd = 1\n')
    (tmp_path / "a.toml").write_text("[rule]\nabove = 1\n")
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "s.toml"))
    monkeypatch.setenv("SPRINGLINE_ALERT_RULES", str(tmp_path / "a.toml"))
    messages = list(problems("config", "check"))
    assert any("unknown key odd" in each for each in messages)
    assert any("rule 'rule'" in each for each in messages)


def test_an_extra_is_missing_where_a_setting_needs_it_or_a_part_of_it_is_there() -> None:
    """Else it is worth a note; their packages are those that ours declares, and one of each marks that it is meant."""
    missing = {"hdfs": ["hdfs-native"], "spark": ["grpcio"], "postgres": ["psycopg"], "alluxio": []}
    findings = {each.check: each for each in machine.check_extras({"hdfs": "SPRINGLINE_UNDER_URI"}, missing)}
    assert {name: each.state for name, each in findings.items()} == {
        "extra alluxio": FindingState.OK, "extra hdfs": FindingState.PROBLEM, "extra postgres": FindingState.NOTE,
        "extra spark": FindingState.PROBLEM,
    }  # fmt: skip
    assert findings["extra hdfs"].remedy == "pip install 'springline[hdfs]'"
    assert "SPRINGLINE_UNDER_URI needs it" in findings["extra hdfs"].message
    extras = machine.packages_of_extras()
    assert "pyspark" in extras["spark"] and "confluent-kafka" in extras["streams"]
    assert all(mark in extras[extra] for extra, mark in machine._MARKER_PACKAGES.items())


def test_java_is_looked_for_where_something_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old one, or none, is a problem then."""
    assert machine.check_java({"spark": ["pyspark"]}).state is FindingState.NOTE
    monkeypatch.setattr(machine, "_is_installed", lambda package: False)
    none = machine.check_java({"spark": []}, {"PATH": "/nowhere"})
    assert none.state is FindingState.PROBLEM and "JAVA_HOME" in none.remedy


def test_disk_and_memory_that_are_short_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The cache's against what it may hold; that of a container where it has less than the machine."""
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: Usage(100, 40, 60))
    assert machine.check_disk(tmp_path / "home").state is FindingState.PROBLEM
    assert machine.check_cache_disk(101, tmp_path).state is FindingState.PROBLEM
    assert machine.check_cache_disk(99, tmp_path).state is FindingState.OK
    assert machine.check_cache_disk(99, tmp_path / "no").state is FindingState.NOTE
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    assert machine.check_memory(tmp_path, tmp_path).state is FindingState.OK
    (tmp_path / "memory.max").write_text("2000000000\n")
    (tmp_path / "memory.current").write_text("1900000000\n")
    assert "100 MB free" in machine.check_memory(tmp_path, tmp_path).message
    assert machine.check_memory(tmp_path / "no", tmp_path).state is FindingState.NOTE


def test_a_server_that_hangs_delays_no_check() -> None:
    """It is reported as one that does not answer; the others are reported too, in their order."""
    started_at = time.monotonic()
    slow, quick = run_checks({"slow": lambda: time.sleep(30) or ok("slow", ""), "quick": lambda: ok("quick", "")}, 0.3)  # type: ignore[func-returns-value]
    assert slow.state is FindingState.PROBLEM and "no answer within" in slow.message and quick.state is FindingState.OK
    assert time.monotonic() - started_at < 20


def test_the_catalog_is_asked_and_not_made(tmp_path: Path) -> None:
    """A file that is none is damaged; an unknown revision is newer code's."""
    address = f"sqlite:///{tmp_path}/catalog.db"
    assert "will be created at first use" in check_catalog(address).message and not list(tmp_path.iterdir())
    Catalog(address, actor="test").engine.dispose()
    assert check_catalog(address).state is FindingState.OK
    (tmp_path / "other.db").write_bytes(b"no database at all, whatever its name says" * 100)
    assert check_catalog(f"sqlite:///{tmp_path}/other.db").state is FindingState.PROBLEM
    finding = check_catalog("postgresql+psycopg://ann:geheim@127.0.0.1:1/catalog")
    assert finding.state is FindingState.PROBLEM and "geheim" not in finding.message + finding.remedy


def test_a_store_and_a_broker_that_do_not_answer_are_reported(tmp_path: Path) -> None:
    """A broker is a problem where a stream needs it."""
    settings = Settings(home=tmp_path / "home")
    assert check_store("under-store", (tmp_path / "home" / "under").as_uri(), settings).state is FindingState.OK
    assert check_store("under-store", "file:///nowhere/at/all", settings).state is FindingState.PROBLEM
    assert check_store("under-store", "hdfs://127.0.0.1:1/x", settings).state is FindingState.PROBLEM
    assert check_kafka(Cluster("127.0.0.1:1"), is_needed=True).state is FindingState.PROBLEM
    assert check_kafka(Cluster("127.0.0.1:1"), is_needed=False).state is FindingState.NOTE
    assert not (tmp_path / "home").exists()


@pytest.mark.usefixtures("home")
def test_a_port_that_somebody_else_has_is_reported_with_who(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the setting that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not connection_error("127.0.0.1", port)
        monkeypatch.setenv("SPRINGLINE_DEMO_SERVERS", "zookeeper")
        monkeypatch.setenv("SPRINGLINE_ZOOKEEPER_PORT", str(port))
        remedies = problems("doctor")
    (remedy,) = (remedy for message, remedy in remedies.items() if f"port {port} is taken" in message)
    assert "SPRINGLINE_ZOOKEEPER_PORT=" in remedy
