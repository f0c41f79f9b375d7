"""What each server would be started with: its ports, its folders, its files, and nothing beyond this machine."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic_settings import SettingsError
from sqlalchemy.engine import make_url

from springline.persistence.profile import project_folder
from springline.services.errors import DataExistsError
from springline.services.packages.jars import Jars
from springline.services.process.launch import run_init_step
from springline.services.registry import SERVERS, make_servers, servers_to_start
from springline.services.scratch_home import scratch_settings
from springline.services.server import Server
from springline.services.servers.alluxio import ramdisk
from springline.services.servers.postgres import cluster_folder, database_url, find_programs, password_file
from springline.services.settings import ServiceSettings

CONF = project_folder() / "services" / "conf"
every_server = pytest.mark.parametrize("name", SERVERS)


def make_server(name: str, home: Path, **settings: object) -> Server:
    """One server of this home."""
    (server,) = make_servers([name], ServiceSettings(home=home, **settings))  # type: ignore[arg-type]
    return server


@every_server
def test_a_server_lies_in_its_home_and_its_ports_are_settings(name, tmp_path):
    """So that two homes do not conflict."""
    server = make_server(name, tmp_path)
    assert server.folder.is_relative_to(tmp_path) or (name == "postgres" and os.geteuid() == 0)
    for setting, port in server.ports.items():
        declared, _, offset = setting.partition(" + ")
        first = ServiceSettings.model_fields[declared.removeprefix("SPRINGLINE_").lower()].default
        assert port == first + int(offset or 0)


def test_no_two_servers_share_a_port(tmp_path):
    """As long as none is set."""
    ports = [port for name in SERVERS for port in make_server(name, tmp_path).ports.values()]
    assert len(ports) == len(set(ports))


def test_a_home_beside_others_has_ports_of_its_own(tmp_path):
    """Rows of ports are as long as the workers and DataNodes need; a port that is given stays."""
    settings = scratch_settings(tmp_path, hdfs_datanodes=4, alluxio_workers=3, kafka_port=9092)
    ports = [port for server in make_servers(tuple(SERVERS), settings) for port in server.ports.values()]
    assert len(ports) == len(set(ports))
    assert set(ports) & {port for name in SERVERS for port in make_server(name, tmp_path).ports.values()} == {9092}


def test_more_copies_than_datanodes_are_refused(tmp_path):
    """A block could never have as many."""
    with pytest.raises(ValueError, match=r"SPRINGLINE_HDFS_REPLICATION=2 .*SPRINGLINE_HDFS_DATANODES=1"):
        ServiceSettings(home=tmp_path, hdfs_datanodes=1)


def test_hdfs_has_a_file_on_its_disks_when_it_is_closed():
    """What was persisted outlives a power cut, as in a folder."""
    site = ElementTree.parse(CONF / "hdfs" / "hdfs-site.xml")
    properties = {each.findtext("name"): each.findtext("value") for each in site.iter("property")}
    assert properties["dfs.datanode.synconclose"] == "true"


def test_every_datanode_has_a_folder_and_ports_of_its_own(tmp_path):
    """Three ports each, in a row."""
    server = make_server("hdfs", tmp_path, hdfs_datanodes=3, hdfs_datanode_port=30000)
    nodes = [process.environment for process in server.processes if process.name.startswith("datanode")]
    assert [node["DATANODE_NAME"] for node in nodes] == ["datanode-1", "datanode-2", "datanode-3"]
    names = ("DATANODE_PORT", "DATANODE_IPC_PORT", "DATANODE_HTTP_PORT")
    assert [int(node[name]) for node in nodes for name in names] == list(range(30000, 30009))


def test_every_worker_of_alluxio_has_a_ramdisk_and_ports_of_its_own(tmp_path):
    """Worker and job worker of a pair share them."""
    settings = ServiceSettings(home=tmp_path, alluxio_workers=2)
    (server,) = make_servers(["alluxio"], settings)
    commands = {process.name: " ".join(process.command) for process in server.processes}
    assert [name for name in commands if "worker" in name] == ["worker-1", "worker-2", "job-worker-1", "job-worker-2"]
    for number in (1, 2):
        folder = f"tieredstore.level0.dirs.path={ramdisk(settings)}/worker-{number}"
        port = f"rpc.port={settings.alluxio_worker_port + 5 * (number - 1)}"
        for name in (f"worker-{number}", f"job-worker-{number}"):
            assert all(f"-Dalluxio.worker.{option} " in commands[name] for option in (folder, port))


def test_a_server_waits_for_the_one_that_it_lies_on(tmp_path):
    """Alluxio asks for its root at the start; over a folder it waits for no server, nor does Spark Connect alone."""
    assert make_server("alluxio", tmp_path).after == make_server("spark-connect", tmp_path).after == ()
    on_hdfs = make_server("alluxio", tmp_path, alluxio_under_uri="hdfs://127.0.0.1:8020/alluxio")
    assert on_hdfs.after == ("hdfs",)
    assert "hadoop-client" in " ".join(on_hdfs.processes[0].command)
    settings = {"spark_connect_master": "spark://127.0.0.1:7077", "spark_connect_stores": ("alluxio", "s3")}
    on_spark = make_server("spark-connect", tmp_path, **settings)
    assert on_spark.after == ("spark",)
    assert "spark.hadoop.fs.alluxio.impl=alluxio.hadoop.FileSystem" in on_spark.processes[0].command
    assert "/jars/spark/*:" in " ".join(on_spark.processes[0].command)
    assert "/jars/spark-s3/*" in " ".join(on_spark.processes[0].command)
    assert "alluxio" not in " ".join(make_server("spark-connect", tmp_path).processes[0].command)


def test_two_homes_have_two_ramdisks(tmp_path):
    """Unless a folder is chosen."""
    one, other = (ramdisk(ServiceSettings(home=tmp_path / name)) for name in ("one", "other"))
    assert one != other
    assert ramdisk(ServiceSettings(home=tmp_path, alluxio_ramdisk="/chosen")) == Path("/chosen")


@pytest.fixture
def postgres(tmp_path, monkeypatch):
    """PostgreSQL, prepared for its first start by a user who is not root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    server = make_server("postgres", tmp_path)
    server.folder.mkdir(parents=True, exist_ok=True)
    server.prepare()
    return server


def test_the_password_of_postgresql_is_made_once_and_is_in_no_address(postgres, tmp_path):
    """It is in a file for the owner of the home only, which the address names.

    A cluster may lie outside a home that was removed, and would refuse every login with a new password.
    """
    settings = ServiceSettings(home=tmp_path)
    password = password_file(settings).read_text()
    postgres.prepare()
    assert password_file(settings).read_text() == password
    password_file(settings).unlink()
    postgres.prepare()
    assert password_file(settings).read_text() == password
    assert stat.S_IMODE(password_file(settings).stat().st_mode) == 0o600
    secret, url = password.strip().rpartition(":")[2], database_url(settings, "airflow")
    assert len(secret) >= 20
    for text in (postgres.address, url, *postgres.processes[0].command, *postgres.init_steps[0].command):
        assert secret not in text
    assert str(password_file(settings)) in url


@pytest.mark.parametrize(("name", "folder"), [("postgres", "data"), ("hdfs", "namenode"), ("alluxio", "journal")])
def test_data_that_are_there_are_left_alone_by_what_prepares_a_first_start(name, folder, tmp_path, monkeypatch):
    """Only a command that was cut short is known to have left half of them."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Jars, "folder", lambda *_: tmp_path)
    server = make_server(name, tmp_path, alluxio_ramdisk=str(tmp_path / "ramdisk"))
    (once,) = server.init_steps
    assert once.output_folder == server.folder / folder
    once.output_folder.mkdir(parents=True)
    (once.output_folder / "precious").touch()
    server.prepare()
    with pytest.raises(DataExistsError):
        run_init_step(server, once, "token", tmp_path / "log")
    assert (once.output_folder / "precious").exists() and "-force" not in once.command


def test_root_has_postgresql_run_by_somebody_else(tmp_path, monkeypatch):
    """In /var/lib where that user cannot get into the home; anybody else runs it himself, in the home."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert make_server("postgres", tmp_path).user == ""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert make_server("postgres", tmp_path).user in ("postgres", "nobody")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    settings = ServiceSettings(home=private / "home")
    assert cluster_folder(settings, "nobody").parent.parent == Path("/var/lib/springline")
    assert cluster_folder(settings, "") == private / "home" / "postgres"


def test_postgresql_is_found_on_the_path_else_debians_newest(tmp_path):
    """A link on the PATH leads to the folder with both programs."""
    for version in ("9", "15", "17"):
        folder = tmp_path / "debian" / version / "bin"
        folder.mkdir(parents=True)
        for program in ("postgres", "initdb"):
            (folder / program).write_text("")
            (folder / program).chmod(0o755)
    assert find_programs("", tmp_path / "debian") == tmp_path / "debian" / "17" / "bin"
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "postgres").symlink_to(tmp_path / "debian" / "15" / "bin" / "postgres")
    assert find_programs(str(tmp_path / "links"), tmp_path / "debian") == tmp_path / "debian" / "15" / "bin"


def test_airflow_keeps_its_state_in_the_postgresql_beside_it_and_uses_one_driver(tmp_path):
    """Its asynchronous half would ask for another one; on SQLite, where that is chosen, it needs no server."""
    variable, url = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", database_url(ServiceSettings(home=tmp_path), "airflow")
    plain = make_server("airflow", tmp_path, airflow_database="sqlite")
    assert plain.needs == () and plain.environment[variable].startswith("sqlite:///")
    server = make_server("airflow", tmp_path)
    assert server.needs == ("postgres",)
    assert server.environment[variable] == server.environment[f"{variable}_ASYNC"] == url
    assert server.init_steps[0].stamp != plain.init_steps[0].stamp


@pytest.mark.parametrize(
    ("database", "names", "started"),
    [
        ("postgres", ["kafka", "airflow"], ["kafka", "postgres", "airflow"]),
        ("postgres", ["airflow", "postgres"], ["postgres", "airflow"]),
        ("postgres", ["postgres", "kafka", "airflow"], ["postgres", "kafka", "airflow"]),
        ("sqlite", ["kafka", "airflow"], ["kafka", "airflow"]),
        ("postgresql+psycopg://a@b/c", ["airflow"], ["airflow"]),
    ],
)
def test_what_a_server_needs_is_started_before_it(tmp_path, database, names, started):
    """Whether it was named or not; one that lies elsewhere is not started."""
    servers = servers_to_start(names, ServiceSettings(home=tmp_path, airflow_database=database))
    assert [server.name for server in servers] == started


def test_a_database_of_airflow_that_is_none_is_refused(tmp_path):
    """In a line with what it may be; the home may stand in an address."""
    with pytest.raises(SettingsError, match="SPRINGLINE_AIRFLOW_DATABASE: use postgres, sqlite, or"):
        ServiceSettings(home=tmp_path, airflow_database="postgre")
    server = make_server("airflow", tmp_path, airflow_database="postgresql+psycopg://a@b/c?passfile={home}/pass")
    assert make_url(server.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).query == {"passfile": f"{tmp_path}/pass"}


def test_readers_of_airflows_sqlite_do_not_hold_up_its_writers(tmp_path: Path):
    """The file is made with a write-ahead log before Airflow first opens it; one that is there keeps what it holds."""
    server = make_server("airflow", tmp_path, airflow_database="sqlite")
    server.folder.mkdir(parents=True)
    server.prepare()
    with closing(sqlite3.connect(server.folder / "airflow.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        database.execute("CREATE TABLE kept (x)")
    server.prepare()
    with closing(sqlite3.connect(server.folder / "airflow.db")) as database:
        assert database.execute("SELECT count(*) FROM kept").fetchone() == (0,)
