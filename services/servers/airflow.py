"""Apache Airflow: scheduler, DAG processor, triggerer and API server over one database.

`airflow standalone` would start log servers that listen on every interface, so its parts are started one by one.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sqlite3
import sys
import urllib.request
from contextlib import closing, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from springline.persistence.private_files import write_private_once
from springline.persistence.profile import import_root, project_folder
from springline.services.airflow_api import AirflowApi
from springline.services.packages.java import find_java
from springline.services.server import ANSWER_SECONDS, Once, Process, Server
from springline.services.servers.postgres import url
from springline.services.settings import ServiceSettings
from springline.services.user_code import check_dag_folder, dag_settings, python_path

USER = "admin"
_PASSWORDS = "simple_auth_manager_passwords.json.generated"
_KEY = "token.key"
_SQLITE = "airflow.db"
_PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_DEFAULT_POOL = "default_pool"
RESERVED_SLOTS = 3  # beside the default pool: the slots of the pools of springline_airflow/pools.py


def airflow(settings: ServiceSettings) -> Server:
    """The server as `settings` want it."""
    folder = settings.home / "airflow"
    address = f"http://127.0.0.1:{settings.airflow_port}"
    command = (sys.executable, "-m", "airflow")
    return Server(
        name="airflow",
        address=address,
        folder=folder,
        processes=(
            Process("api-server", (*command, "api-server")),
            Process("scheduler", (*command, "scheduler", "--skip-serve-logs")),
            Process("dag-processor", (*command, "dag-processor")),
            Process("triggerer", (*command, "triggerer", "--skip-serve-logs")),
        ),
        environment=environment(settings, folder, address),
        ports={"SPRINGLINE_AIRFLOW_PORT": settings.airflow_port},
        ready=partial(_missing, address),
        prepare=partial(_prepare, settings, folder),
        furnish=partial(_furnish, settings, address),
        once=(Once("migrate", (*command, "db", "migrate"), folder / _migrated(settings)),),
        needs=("postgres",) if settings.airflow_database == "postgres" else (),
    )


def environment(settings: ServiceSettings, folder: Path, address: str) -> dict[str, str]:
    """Airflow's settings, and what the tasks that it runs need."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    spark = f'{{"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": {settings.connect_port}}}'
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__API_AUTH__JWT_SECRET_CMD": f"cat {shlex.quote(str(folder / _KEY))}",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__INSTANCE_NAME": "Springline",
        "AIRFLOW__API__PORT": str(settings.airflow_port),
        **dag_settings(os.environ, project_folder() / "dags"),
        # With another port than 8080 every task fails without this one: it is not derived from the port.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # The executor has slots beyond those of the default pool: a persister never waits for one.
        "AIRFLOW__CORE__PARALLELISM": str(settings.airflow_parallelism + RESERVED_SLOTS),
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # A receiver of OpenLineage events that is away holds a task up for 2 s at its start and at its end; by default,
        # for 10 s. A thread sends them: to fork a task that talks to Spark is no good idea.
        "AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD": "True",
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "2",
        # Tasks of a scheduler that was killed are begun anew once it was silent for 30 s (Airflow looks every 5 min).
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
        # A task tells every 5 s that it lives; an API server that is started again is away for a minute at most.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
        **_database(settings, folder),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPRINGLINE_SPARK": spark,
        **find_java(os.environ, settings.home).environment(path),  # streams bring a Spark of their own
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path(os.environ, import_root()),
        "SPRINGLINE_HOME": str(settings.home),
        "SPRINGLINE_KAFKA": os.environ.get("SPRINGLINE_KAFKA", f"127.0.0.1:{settings.kafka_port}"),
    }


def _database(settings: ServiceSettings, folder: Path) -> dict[str, str]:
    """Where Airflow keeps its own state; for PostgreSQL the same driver serves its synchronous and its other half."""
    if settings.airflow_database == "sqlite":
        # Writers wait for each other; after the 5 s of the default they fail on a busy machine.
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / _SQLITE}?timeout=60"}
    here = settings.airflow_database == "postgres"
    address = url(settings, "airflow") if here else settings.airflow_database.replace("{home}", str(settings.home))
    found = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": address}
    if address.startswith("postgresql+psycopg:"):
        found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"] = address
    return found


def password(home: Path) -> str:
    """The password of the user `admin` in this home; raises `FileNotFoundError` before the first start."""
    passwords = json.loads((home / "airflow" / _PASSWORDS).read_text())
    return str(passwords[USER])


def _migrated(settings: ServiceSettings) -> str:
    """The name of what remembers that this version has made its tables in this database."""
    return f"migrated-{version('apache-airflow')}-{settings.airflow_database.partition(':')[0]}"


def _prepare(settings: ServiceSettings, folder: Path) -> None:
    """Make the password, the key of the tokens, and the file of SQLite, where it is used; what is there stays."""
    check_dag_folder(os.environ)
    folder.chmod(0o700)  # beside what is made here, Airflow keeps a key of its own in it
    if settings.airflow_database == "sqlite":
        (folder / _SQLITE).touch(mode=0o600)
        with closing(sqlite3.connect(folder / _SQLITE)) as connection, suppress(sqlite3.OperationalError):  # in use
            connection.execute("PRAGMA journal_mode = WAL")  # its readers do not hold up its writers
    write_private_once(folder / _PASSWORDS, json.dumps({USER: secrets.token_urlsafe(12)}))
    write_private_once(folder / _KEY, secrets.token_urlsafe(64))


def _furnish(settings: ServiceSettings, address: str) -> None:
    """Give the default pool as many slots as the settings say: Airflow does so only when it makes its tables."""
    api = AirflowApi(address, USER, password(settings.home))
    try:
        api.resize_pool(_DEFAULT_POOL, settings.airflow_parallelism)
    finally:
        api.close()


def _missing(address: str) -> str:
    try:
        with urllib.request.urlopen(f"{address}/api/v2/monitor/health", timeout=ANSWER_SECONDS) as answer:
            health = json.load(answer)
    except (OSError, ValueError):
        return "the API server does not answer"
    ill = [part for part in _PARTS if (health.get(part) or {}).get("status") != "healthy"]
    return f"not healthy: {', '.join(ill)}" if ill else ""
