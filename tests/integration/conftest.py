"""The real servers, each started once when the first test asks for it, in a home of this run's own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from springline.services.registry import make_servers
from springline.services.scratch_home import scratch_settings
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from tests.support.servers.memory_folders import remove_memory_of
from tests.support.servers.servers import Running

SMALL = {"alluxio_memory": 256 << 20, "alluxio_workers": 2, "spark_workers": 2}


@contextmanager
def settings_of_own_home(**settings: int) -> Iterator[ServiceSettings]:
    """A home and ports of its own, small unless `settings` say otherwise; the home goes in the end."""
    # Not one of pytest's folders: those are private, and started by root PostgreSQL runs as another user.
    home = Path(tempfile.mkdtemp(prefix="springline-servers-", dir="/tmp"))
    home.chmod(0o711)
    yield scratch_settings(home, **{**SMALL, **settings})
    shutil.rmtree(home, ignore_errors=True)
    remove_memory_of(home)


@pytest.fixture(scope="session")
def service_settings() -> Iterator[ServiceSettings]:
    """A home and ports of its own."""
    with settings_of_own_home() as settings:
        yield settings


@pytest.fixture(scope="session")
def supervisor(service_settings: ServiceSettings) -> Iterator[Supervisor]:
    """Ends every server with the run."""
    supervisor = Supervisor(service_settings.home)
    yield supervisor
    for name in reversed(supervisor.started_servers()):
        supervisor.down(name, 5)


@pytest.fixture(scope="session")
def start(supervisor: Supervisor, service_settings: ServiceSettings) -> Callable[[str], Running]:
    """Starts a server, or what has ended of it, and waits until it is ready.

    A server whose processes are those that were ready before is not checked again: that takes a second for Alluxio.
    """
    ready_processes: dict[str, dict[str, int]] = {}

    def start(name: str) -> Running:
        (server,) = make_servers([name], service_settings)
        running = Running(name, server.address, service_settings, supervisor)
        processes = running.processes
        if not processes or processes != ready_processes.get(name):
            running.restart_stopped()
            ready_processes[name] = running.processes
        return running

    return start


@pytest.fixture
def hdfs(start: Callable[[str], Running]) -> Running:
    """A NameNode and two DataNodes, whole again whatever the test before did to them."""
    return start("hdfs")


@pytest.fixture
def alluxio(start: Callable[[str], Running]) -> Running:
    """Alluxio with two workers, over a folder."""
    return start("alluxio")


@pytest.fixture
def postgres(start: Callable[[str], Running]) -> Running:
    """PostgreSQL with the databases `springline` and `airflow`."""
    return start("postgres")


@pytest.fixture
def kafka(start: Callable[[str], Running]) -> Running:
    """One broker."""
    return start("kafka")


@pytest.fixture
def schema_registry(start: Callable[[str], Running]) -> Running:
    """An Apicurio Registry."""
    return start("schema-registry")


@pytest.fixture
def s3(start: Callable[[str], Running]) -> Running:
    """A server of S3's protocol, whose objects outlive it."""
    return start("s3")


@pytest.fixture
def zookeeper(start: Callable[[str], Running]) -> Running:
    """One ZooKeeper."""
    return start("zookeeper")


@pytest.fixture
def spark(start: Callable[[str], Running]) -> Running:
    """A standalone master with a worker."""
    return start("spark")
