"""An Airflow of this suite's own: its home is a temporary folder, chosen before Airflow is imported."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from springline.persistence.platform import Platform, open_platform
from springline.spark_jobs.streaming.job_folder import JobFolder
from springline.spark_jobs.streaming.runtime.atomic_files import write_json
from springline.spark_jobs.streaming.tracking.config import LOW_WATERMARKS
from springline.testing.lines import LinesRunner
from tests.support.joins.pairs import EXPLAINED, PAIRS
from tests.support.servers.memory_folders import remove_memory_of

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="springline-airflow-"))

# Airflow reads these once, when it is imported; nothing has imported it before this suite is collected.
os.environ.update(
    AIRFLOW_HOME=str(HOME / "airflow"),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
)


@pytest.fixture(scope="session", autouse=True)
def _clean_up():
    yield
    shutil.rmtree(HOME, ignore_errors=True)
    remove_memory_of(HOME)


@pytest.fixture
def api_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: LinesRunner) -> Iterator[Platform]:
    """The platform that the API finds, empty."""
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPRINGLINE_CACHE_URI", f"file://{tmp_path}/cache")
    monkeypatch.setenv("SPRINGLINE_MIN_OPERATION_BYTES", "0")
    with closing(open_platform(runner=runner)) as platform:
        yield platform


@pytest.fixture
def words_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """The folder of a tracked job, `words` over `lines`, that ran once: it gave 3 records up, and 50 are unfinished."""
    (tmp_path / "streams.toml").write_text(
        '[words]\nkind = "wordcount"\ntopic = "lines"\n[words.tracking]\nackers = 2\nmax_ackers = 4\n'
    )
    monkeypatch.setenv("SPRINGLINE_HOME", str(tmp_path))
    monkeypatch.setenv("SPRINGLINE_STREAMS_FILE", str(tmp_path / "streams.toml"))
    job_folder = JobFolder(tmp_path / "streams" / "words")
    job_folder.path.mkdir(parents=True)
    low_watermarks = {"0": 700, "1": 800}
    write_json(job_folder.path / LOW_WATERMARKS, {"low_watermarks": low_watermarks})
    tracking = {
        "in_flight": 50, "completed": 56_789, "retried": 12, "failed": 3, "bytes": 2_000_000, "source_paused": False,
        "pause_reason": "",
        "low_watermarks": low_watermarks, "seconds": {"p50": 0.091, "p90": 0.1, "p99": None},
        "ackers": [{"acker": 0, "in_flight": 50, "completed": 56_789, "epoch": 1}],
    }  # fmt: skip
    stages = {"retry": {"round": 5, "round_ended_at": 2.0, "counts": {"retried": 12, "failed": 3}}}
    heartbeat = {"state": "running", "error": "", "heartbeat_at": time.time(), "started_at": 1.0, "pid": 7}
    job_folder.write_heartbeat({**heartbeat, "stages": stages, "tracking": tracking})
    return job_folder


@pytest.fixture
def pairs(tmp_path: Path, words_job: JobFolder) -> JobFolder:
    """The folder of a join, `pairs`, beside `words`: a heavy key is split over its two units, and a piece moves."""
    with (tmp_path / "streams.toml").open("a") as streams_file:
        streams_file.write(PAIRS)
    job_folder = JobFolder(tmp_path / "streams" / "pairs")
    job_folder.path.mkdir(parents=True)
    write_json(job_folder.path / "explain.json", EXPLAINED)
    return job_folder


ROLES = {"vera": "viewer", "ulla": "user"}


@pytest.fixture(scope="module")
def root() -> Iterator[FastAPI]:
    """An app with Airflow's login and the plugin as Airflow finds and mounts it."""
    from airflow import settings as airflow_settings
    from airflow.api_fastapi.app import init_auth_manager, init_plugins, purge_cached_app
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi import FastAPI

    with pytest.MonkeyPatch.context() as patch:
        users = ",".join(f"{name}:{role}" for name, role in ROLES.items())
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", users)
        purge_cached_app()
        import_all_models()
        Base.metadata.create_all(airflow_settings.engine)
        app = FastAPI()
        init_plugins(app)
        init_auth_manager(app)
        yield app
        purge_cached_app()


@pytest.fixture(scope="module")
def api(root: FastAPI) -> FastAPI:
    """The API's own app, beside which the plugin mounts nothing."""
    from starlette.routing import Mount

    from springline.airflow.api import PREFIX

    (mount,) = (route for route in root.routes if isinstance(route, Mount) and route.path.startswith(PREFIX))
    assert mount.path == PREFIX
    return mount.app


@pytest.fixture(scope="module")
def clients(root: FastAPI) -> dict[str, TestClient]:
    """A client of each user, with a token that Airflow gave for the password; `nobody` has none."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from fastapi.testclient import TestClient

    test_clients = {"nobody": TestClient(root)}
    for name in ROLES:
        login = {"username": name, "password": SimpleAuthManager.get_passwords()[name]}
        token = test_clients["nobody"].post("/auth/token", json=login).json()["access_token"]
        test_clients[name] = TestClient(
            root, headers={"Authorization": f"Bearer {token}"}, raise_server_exceptions=False
        )
    return test_clients


@pytest.fixture(scope="module")
def read_dags(root: FastAPI) -> None:
    """Airflow has read the DAGs `recover` and `persister` from their files."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import synchronize_log_template
    from airflow.utils.session import create_session

    synchronize_log_template()  # as Airflow's own making of its tables does; every DAG run refers to it
    for name in ("recover", "persister"):
        bag = DagBag(ROOT / "dags" / f"{name}.py", bundle_name="dags-folder", bundle_path=ROOT / "dags")
        assert (list(bag.dags), bag.import_errors) == ([name], {})
        with create_session() as session:
            session.merge(DagBundleModel(name="dags-folder"))
            session.flush()
            sync_bag_to_db(bag, "dags-folder", None, session=session)


@pytest.fixture
def vera(clients: dict[str, TestClient]) -> TestClient:
    """A viewer."""
    return clients["vera"]


@pytest.fixture
def ulla(clients: dict[str, TestClient]) -> TestClient:
    """One who may change DAGs."""
    return clients["ulla"]
