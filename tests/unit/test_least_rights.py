"""Who can reach what without containers: servers on this machine alone, files for their owner, no code from data."""

from __future__ import annotations

import ast
import ipaddress
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from springline.persistence.engine.runner import NoRunner
from springline.persistence.errors import StorageUnavailableError
from springline.persistence.model.dataset import Strategy
from springline.persistence.monitoring.alerts import AlertEvaluator
from springline.persistence.monitoring.metric import NoMetricsReporter
from springline.persistence.platform import open_platform
from springline.persistence.private_files import default_cache_folder
from springline.persistence.profile import project_folder
from springline.persistence.settings import Settings
from springline.services.registry import SERVERS, make_servers
from springline.services.server import Process, Server
from springline.services.servers.airflow import password
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.spark_jobs.landing import Landing, land
from springline.spark_jobs.streaming.settings import StreamSettings
from springline.testing.lines import make_dataset as make

CODE = ("persistence", "spark_jobs", "plugins", "services", "dags")
ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
HERE = "127.0.0.1"
# Where each server is configured to listen; without one of these it would choose by itself.
EXPECTED_SETTINGS = {
    "airflow": (
        "AIRFLOW__API__HOST=127.0.0.1",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL=http://127.0.0.1:8099/execution/",
        "scheduler --skip-serve-logs",
        "triggerer --skip-serve-logs",
    ),
    "alluxio": tuple(
        f"-Dalluxio.{part}.bind.host=127.0.0.1"
        for part in ("master", "master.web", "job.master", "worker", "worker.web", "job.worker", "proxy.web")
    ),
    "hdfs": ("NAMENODE_HOST=127.0.0.1", "DATANODE_HOST=127.0.0.1"),
    "kafka": ("BROKER_BIND=127.0.0.1", "BROKER_HOST=127.0.0.1"),
    "schema-registry": ("QUARKUS_HTTP_HOST=127.0.0.1", "//127.0.0.1:"),
    "s3": ("-Dserver.address=127.0.0.1", "conf/s3/loopback.xml"),
    "postgres": ("listen_addresses=127.0.0.1", "unix_socket_directories="),
    "spark": ("--host 127.0.0.1", "SPARK_LOCAL_IP=127.0.0.1"),
    "spark-connect": ("spark.connect.grpc.binding.address=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"),
    "zookeeper": (),
}


def launch_text(name: str, home: Path) -> str:
    """All configuration of a server: its commands and its environment."""
    (server,) = make_servers([name], ServiceSettings(home=home, airflow_port=8099))
    environment = {**server.environment, **{k: v for each in server.processes for k, v in each.environment.items()}}
    commands = [word for each in (*server.processes, *server.init_steps) for word in each.command]
    return " ".join([server.address, *commands, *(f"{key}={value}" for key, value in environment.items())])


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_listens_on_this_machine_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is configured so, and no other address is in its configuration."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    text = launch_text(name, tmp_path)
    assert all(each in text for each in EXPECTED_SETTINGS[name])
    assert all(ipaddress.ip_address(each).is_loopback for each in ADDRESS.findall(text)), text
    assert "0.0.0.0" not in text and "::" not in text.replace("alluxio::", "")


def test_zookeeper_listens_on_this_machine_alone(tmp_path: Path) -> None:
    """By the file that is written for it; it has no page for who looks after it."""
    (server,) = make_servers(["zookeeper"], ServiceSettings(home=tmp_path))
    server.folder.mkdir(parents=True)
    server.prepare()
    configuration = (server.folder / "zoo.cfg").read_text()
    assert "clientPortAddress=127.0.0.1\n" in configuration and "admin.enableServer=false" in configuration


def test_no_configuration_file_names_another_address() -> None:
    """Where a file says where to listen, what it says comes from the environment."""
    for file in (project_folder() / "services" / "conf").rglob("*.*"):
        text = file.read_text()
        assert {each for each in ADDRESS.findall(text) if not each.startswith("127.")} == set(), file
        assert "0.0.0.0" not in text and "listeners=PLAINTEXT://:" not in text, file


def test_clients_ask_this_machine_alone_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no setting names is not asked."""
    for name in list(os.environ):
        if name.startswith("SPRINGLINE_"):
            monkeypatch.delenv(name)
    settings = StreamSettings()
    assert (settings.kafka_bootstrap_servers, settings.zookeeper) == (f"{HERE}:9092", f"{HERE}:2181")
    for file in (project_folder() / "profiles").glob("*.env"):
        assert all(ipaddress.ip_address(each).is_loopback for each in ADDRESS.findall(file.read_text())), file


def test_a_sparks_own_session_listens_on_this_machine_alone() -> None:
    """Both kinds that run in a process of ours."""
    for file in ("spark_jobs/session.py", "spark_jobs/streaming/spark/session.py"):
        text = (project_folder() / file).read_text()
        assert '"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"' in text
        assert '"spark.ui.enabled": "false"' in text


# ---- files


def test_what_holds_secrets_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the mask is: passwords, keys, Airflow's database, and the folder; the next start keeps them all."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    servers = make_servers(["airflow", "postgres"], ServiceSettings(home=tmp_path, airflow_database="sqlite"))
    before = os.umask(0)
    try:
        for server in servers:
            server.folder.mkdir(parents=True, exist_ok=True)
            server.prepare()
            assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700, server.name
    finally:
        os.umask(before)
    secret = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "conf"]
    assert len(secret) >= 5
    assert {path: oct(stat.S_IMODE(path.stat().st_mode)) for path in secret} == dict.fromkeys(secret, "0o600")
    first = {path: path.read_bytes() for path in secret}
    for server in servers:
        server.prepare()
    assert {path: path.read_bytes() for path in secret} == first
    assert password(tmp_path).encode() in b"".join(first.values())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home in which each part of the platform has left something, whatever the mask of the process was."""
    home = tmp_path / "home"
    monkeypatch.setenv("SPRINGLINE_HOME", str(home))
    monkeypatch.setattr("springline.persistence.private_files.default_cache_folder", lambda home: home / "cache")
    monkeypatch.setattr("springline.spark_jobs.streaming.settings.default_cache_folder", lambda home: home / "cache")
    before = os.umask(0)
    supervisor = Supervisor(home, say=lambda _: None)
    try:
        streams = StreamSettings(home=home)
        streams.make_folders()
        with closing(open_platform(Settings(under_bandwidth=1e9), runner=NoRunner())) as platform:
            make(platform, "etl/a", lines=["x"], strategy=Strategy.CACHE_THROUGH)
        folder = streams.folder("job")
        folder.request_stop()
        folder.write_heartbeat({"state": "stopped"})
        land([date(2013, 1, 5)], Landing(str(home / "landing")))
        AlertEvaluator(home / "alerts", "persistence", actor="test").evaluate([], [], NoMetricsReporter(), 0.0)
        sleeping = Process("main", (sys.executable, "-c", "import time; time.sleep(600)"))
        supervisor.up([Server("small", "", home / "small", (sleeping,), {}, {}, lambda: "")], 10.0)
        yield home
    finally:
        os.umask(before)
        supervisor.down("small", 1.0)


def test_what_lies_in_a_home_is_for_its_owner_alone(home: Path) -> None:
    """Data, catalog, logs, records, states: the folders, and the files that lie in none."""
    assert {"under", "landing", "log", "run", "alerts", "streams", "spill", "small", "cache", "catalog.db",
            "link.state"} <= {each.name for each in home.iterdir()}  # fmt: skip
    open_to_others = {each.name: oct(each.stat().st_mode) for each in home.iterdir() if each.stat().st_mode & 0o077}
    assert open_to_others == {}


def test_a_home_that_others_could_read_is_made_private(home: Path) -> None:
    """By whoever opens the platform next; a folder of one's own elsewhere keeps the rights that it has."""
    own = home.parent / "own"
    own.mkdir(mode=0o755)
    for each in home.iterdir():
        each.chmod(0o755 if each.is_dir() else 0o644)
    open_platform(Settings(), runner=NoRunner()).close()
    open_platform(Settings(under_uri=f"file://{own}"), runner=NoRunner()).close()
    for name in ("under", "cache", "catalog.db"):
        assert not (home / name).stat().st_mode & 0o077, name
    assert stat.S_IMODE(own.stat().st_mode) == 0o755


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The default cache of a home, in a folder where everybody may make folders."""
    folder = tmp_path / "shared" / "springline-1"
    folder.parent.mkdir()
    monkeypatch.setattr("springline.persistence.private_files.default_cache_folder", lambda home: folder)
    yield folder


def test_the_cache_in_memory_is_for_its_owner_alone(shared: Path, tmp_path: Path) -> None:
    """Everybody may look into /dev/shm; one that was made with other rights before is mended; two homes have two."""
    assert default_cache_folder(tmp_path / "a") != default_cache_folder(tmp_path / "b")
    for mode in (None, 0o777):
        if mode is not None:
            shared.chmod(mode)
        open_platform(Settings(home=tmp_path / "home", cache_uri="", under_uri=""), runner=NoRunner()).close()
        assert stat.S_IMODE(shared.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["link", "owner"])
def test_a_cache_that_somebody_else_made_is_not_used(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its name can be guessed, and whoever made it could read and change what lies in it."""
    if how == "link":
        (tmp_path / "theirs").mkdir()
        shared.symlink_to(tmp_path / "theirs")
    else:
        shared.mkdir()
        monkeypatch.setattr("springline.persistence.private_files.os.geteuid", lambda: 12345)
        monkeypatch.setattr(
            "springline.persistence.private_files._owner_id", lambda path: 0 if path == shared else 12345
        )
    with pytest.raises(StorageUnavailableError, match=r"belongs to another user.*SPRINGLINE_CACHE_URI"):
        open_platform(Settings(home=tmp_path / "home", cache_uri="", under_uri=""), runner=NoRunner())


# ---- code

FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "marshal.loads"}
SQL_CALLS = {"text", "exec_driver_sql", "sql"}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "telnetlib", "ftplib"}


def function_name(node: ast.Call) -> str:
    """What is called, as it is written."""
    return ast.unparse(node.func)


@pytest.fixture(scope="module", params=CODE)
def nodes(request: pytest.FixtureRequest) -> list[tuple[str, ast.AST]]:
    """What the modules of a folder of the checkout consist of, each with its place."""
    files = (project_folder() / request.param).rglob("*.py")
    trees = {file.relative_to(project_folder()).as_posix(): ast.parse(file.read_text()) for file in files}
    return [(f"{name}:{getattr(node, 'lineno', 0)}", node) for name, tree in trees.items() for node in ast.walk(tree)]


def test_no_data_becomes_code(nodes: list[tuple[str, ast.AST]]) -> None:
    """Nothing is unpickled or evaluated, no shell is started, and no certificate goes unchecked."""
    for where, node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {node.module or ""} if isinstance(node, ast.ImportFrom) else {each.name for each in node.names}
            assert not {name.partition(".")[0] for name in names} & FORBIDDEN_MODULES, where
        if isinstance(node, ast.Call):
            assert function_name(node) not in FORBIDDEN_CALLS, where
            keywords = {each.arg: ast.unparse(each.value) for each in node.keywords}
            assert keywords.get("shell") != "True" and keywords.get("verify") != "False", where
            assert keywords.get("allow_pickle") != "True", where


def test_no_sql_is_put_together_from_what_is_given(nodes: list[tuple[str, ast.AST]]) -> None:
    """The catalog is asked by SQLAlchemy's expressions; text is a constant. Two places build SQL, of quoted names."""
    exceptions = ("spark_jobs/streaming/windows/sink/query.py:", "services/servers/postgres.py:")
    for where, node in nodes:
        if isinstance(node, ast.Call) and not where.startswith(exceptions):
            is_sql = function_name(node).rpartition(".")[2] in SQL_CALLS
            assert not (is_sql and any(isinstance(each, ast.JoinedStr | ast.BinOp) for each in node.args)), where
