"""Apache Airflow: scheduler, DAG processor, triggerer and API server with one database.

`airflow standalone` would start log servers that listen on every interface, so its components are started separately.
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

from sqlalchemy import URL

from springline.persistence.private_files import write_private_once
from springline.persistence.profile import import_root, project_folder
from springline.persistence.settings import parse_database_url
from springline.services.airflow_api import AirflowApi
from springline.services.packages.java import find_java
from springline.services.server import ANSWER_SECONDS, InitStep, Process, Server
from springline.services.servers.postgres import database_url
from springline.services.settings import ServiceSettings
from springline.services.user_code import check_dag_folder, dag_settings, python_path

USER = "admin"
_PASSWORDS = "simple_auth_manager_passwords.json.generated"
_KEY = "token.key"
_SQLITE = "airflow.db"
_PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_DEFAULT_POOL = "default_pool"
RESERVED_SLOTS = 3  # in addition to the default pool: the slots of the pools of springline_airflow/pools.py


def airflow(settings: ServiceSettings) -> Server:
    """Describe the server as configured by `settings`."""
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
        readiness_problem=partial(_readiness_problem, address),
        prepare=partial(_prepare, settings, folder),
        provision=partial(_provision, settings, address),
        init_steps=(InitStep("migrate", (*command, "db", "migrate"), folder / _migration_stamp(settings)),),
        needs=("postgres",) if settings.airflow_database == "postgres" else (),
    )


def environment(settings: ServiceSettings, folder: Path, address: str) -> dict[str, str]:
    """Return the environment variables of Airflow and of the tasks that it runs."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    spark = f'{{"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": {settings.spark_connect_port}}}'
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__API_AUTH__JWT_SECRET_CMD": f"cat {shlex.quote(str(folder / _KEY))}",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__INSTANCE_NAME": "Springline",
        "AIRFLOW__API__PORT": str(settings.airflow_port),
        **dag_settings(os.environ, project_folder() / "dags"),
        # Not derived from the port: with another port than 8080, every task would fail without this setting.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # The executor has more slots than the default pool, so that a persister never waits for one.
        "AIRFLOW__CORE__PARALLELISM": str(settings.airflow_parallelism + RESERVED_SLOTS),
        "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # An unavailable receiver of OpenLineage events delays a task by 2 s at its start and at its end, instead of the
        # default of 10 s. Events are sent by a thread, since forking a task that is connected to Spark is unsafe.
        "AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD": "True",
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "2",
        # Tasks of a killed scheduler are restarted after 30 s without heartbeat (by default checked every 5 min).
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
        # A task sends a heartbeat every 5 s; restarting the API server takes a minute at most.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
        **_database_settings(settings, folder),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPRINGLINE_SPARK": spark,
        **find_java(os.environ, settings.home).environment(path),  # streams run a separate Spark
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": python_path(os.environ, import_root()),
        "SPRINGLINE_HOME": str(settings.home),
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": os.environ.get(
            "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{settings.kafka_port}"
        ),
    }


def _database_settings(settings: ServiceSettings, folder: Path) -> dict[str, str]:
    """Return the settings of Airflow's own database; with PostgreSQL, one driver is used for sync and async access."""
    if settings.airflow_database == "sqlite":
        sqlite_url = URL.create("sqlite", database=str(folder / _SQLITE), query={"timeout": "60"})
        # Writers wait for each other; with the default timeout of 5 s they fail on a busy machine.
        return {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": sqlite_url.render_as_string()}
    if settings.airflow_database == "postgres":
        address = database_url(settings, "airflow")
    else:
        url = parse_database_url(settings.airflow_database, settings.home, name="SPRINGLINE_AIRFLOW_DATABASE")
        address = url.render_as_string(hide_password=False)
    variables = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": address}
    if address.startswith("postgresql+psycopg:"):
        variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"] = address
    return variables


def password(home: Path) -> str:
    """Return the password of the user `admin` in this home; raises `FileNotFoundError` before the first start."""
    passwords = json.loads((home / "airflow" / _PASSWORDS).read_text())
    return str(passwords[USER])


def _migration_stamp(settings: ServiceSettings) -> str:
    """Return the name of the stamp file which records that this version has migrated this database."""
    return f"migrated-{version('apache-airflow')}-{settings.airflow_database.partition(':')[0]}"


def _prepare(settings: ServiceSettings, folder: Path) -> None:
    """Create the password, the token key and, if it is used, the SQLite file; existing files are kept."""
    check_dag_folder(os.environ)
    folder.chmod(0o700)  # Airflow stores a key there too
    if settings.airflow_database == "sqlite":
        (folder / _SQLITE).touch(mode=0o600)
        with closing(sqlite3.connect(folder / _SQLITE)) as connection, suppress(sqlite3.OperationalError):  # in use
            connection.execute("PRAGMA journal_mode = WAL")  # readers do not block writers
    write_private_once(folder / _PASSWORDS, json.dumps({USER: secrets.token_urlsafe(12)}))
    write_private_once(folder / _KEY, secrets.token_urlsafe(64))


def _provision(settings: ServiceSettings, address: str) -> None:
    """Set the slots of the default pool to the configured number; Airflow does so only when it creates its tables."""
    api = AirflowApi(address, USER, password(settings.home))
    try:
        api.resize_pool(_DEFAULT_POOL, settings.airflow_parallelism)
    finally:
        api.close()


def _readiness_problem(address: str) -> str:
    try:
        with urllib.request.urlopen(f"{address}/api/v2/monitor/health", timeout=ANSWER_SECONDS) as response:
            health = json.load(response)
    except (OSError, ValueError):
        return "the API server does not answer"
    unhealthy = [part for part in _PARTS if (health.get(part) or {}).get("status") != "healthy"]
    return f"not healthy: {', '.join(unhealthy)}" if unhealthy else ""
