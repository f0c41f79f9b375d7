"""The real servers of the integration suite, to be harmed, and a platform with Alluxio as cache and HDFS below."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from springline.persistence.platform import Platform, open_platform
from springline.persistence.settings import Settings
from springline.services.settings import ServiceSettings
from springline.testing.lines import LinesRunner
from tests.integration.conftest import alluxio, hdfs, settings_of_own_home, start, supervisor
from tests.support.datasets.workflow import workflow_runner
from tests.support.servers.lines_on_servers import put_on_servers
from tests.support.servers.servers import Running

__all__ = ["alluxio", "hdfs", "start", "supervisor"]


@pytest.fixture(scope="session")
def service_settings() -> Iterator[ServiceSettings]:
    """One worker of Alluxio: when it is killed, all that is only cached is gone."""
    with settings_of_own_home(alluxio_workers=1) as settings:
        yield settings


@pytest.fixture
def runner() -> LinesRunner:
    """The operations of the workflow."""
    return workflow_runner()


@pytest.fixture
def platform(tmp_path: Path, runner: LinesRunner, hdfs: Running, alluxio: Running) -> Iterator[Platform]:
    """A platform of this test's own on the servers."""
    folder = uuid.uuid4().hex
    settings = Settings(  # type: ignore[call-arg]
        home=tmp_path / "home",
        cache_uri=f"{alluxio.address}/{folder}",
        alluxio_proxy=f"http://127.0.0.1:{alluxio.settings.alluxio_proxy_port}",
        under_uri=f"{hdfs.address}/{folder}",
        hdfs_http=f"http://127.0.0.1:{hdfs.settings.hdfs_http_port}",
        retry_seconds=0.5,
    )
    platform = open_platform(settings, runner=runner, actor="the survivor")
    put_on_servers(platform, runner)
    yield platform
    platform.close()
    hdfs.restart_stopped()
    alluxio.restart_stopped()
    platform.cache.delete("etl")
