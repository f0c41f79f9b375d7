"""The workflow of the demo: runs days as a backfill, and waits for the runs and for the queue of the persister."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import format_seconds
from springline.services.airflow_api import AirflowApi
from springline.services.demo.failure import format_failure, log_line
from springline.services.demo.progress import RunProgress
from springline.services.demo.wait import ProgressTimeout, wait_until
from springline.services.errors import ServiceError
from springline.services.log_files import last_error
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.spark_jobs.settings import JobSettings

DAG_ID, PERSISTER, MAINTENANCE = "etl_lineage", "persister", "maintenance"
_OPERATIONS = "springline.spark_jobs.etl"
DAYS = tuple(date(2013, 1, 5) + timedelta(days=n) for n in range(3))
FILES, STATES = "etl/", "streams/"  # path prefixes of the workflow's datasets, and of the streams' states
_DEMO_ENVIRONMENT = {
    "SPRINGLINE_STREAM_CHECKPOINT_INTERVAL": "15",  # seconds; short, so that states are in the lineage soon
    "SPRINGLINE_STREAM_TRIGGER_INTERVAL": "0.2",  # seconds between two rounds
    "SPRINGLINE_STREAM_TASKS_PER_STAGE": "1",  # three streams share few cores with everything else
}


def prepare_settings() -> ServiceSettings:
    """Return the settings of the servers, and set the demo's defaults in the environment of this process.

    Raises `ServiceError` if the settings do not name Airflow as a server, or the example's operations.
    """
    settings = ServiceSettings()
    if "airflow" not in settings.demo_servers:
        raise ServiceError("SPRINGLINE_DEMO_SERVERS lacks airflow, which runs the demo's workflow")
    if _OPERATIONS not in JobSettings().operations:
        raise ServiceError(f"SPRINGLINE_OPERATIONS lacks {_OPERATIONS}, which the demo runs: add it")
    os.environ["SPRINGLINE_HOME"] = str(settings.home)
    for name, value in {
        "SPRINGLINE_KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{settings.kafka_port}",
        **_DEMO_ENVIRONMENT,
    }.items():
        os.environ.setdefault(name, value)
    return settings


def run_days(
    api: AirflowApi,
    days: Sequence[date],
    console: Console,
    home: Path,
    on_poll: Callable[[RunProgress], None],
    patience: float = 900,
) -> float:
    """Run days as one backfill, and wait until all have ended; returns the duration in seconds.

    `on_poll` is called at every poll; it may show more, and raise. Raises `ServiceError` if a run failed, naming task
    and log, and if no task has changed its state for `patience` seconds.
    """
    api.pause(DAG_ID, False)
    api.end_backfills(DAG_ID)
    api.backfill(DAG_ID, days[0], days[-1], {}, runs_at_once=len(days))
    start = time.monotonic()
    timer = ProgressTimeout(patience)
    with RunProgress(console) as progress:
        while True:
            on_poll(progress)
            runs = api.runs(DAG_ID, days[0], days[-1])
            tasks = {run_id: api.tasks(DAG_ID, run_id) for run_id in runs}
            for run_id in sorted(runs):
                progress.show(tasks[run_id][0].day if tasks[run_id] else run_id, tasks[run_id])
            if len(runs) == len(days) and all(state in ("success", "failed") for state in runs.values()):
                break
            if timer.is_over((runs, tasks)):
                raise ServiceError(
                    f"no task of {DAG_ID} has changed its state for {format_seconds(patience)}; runs: "
                    f"{', '.join(f'{run_id} is {state}' for run_id, state in sorted(runs.items())) or 'none'}. "
                    "see `springline logs airflow`"
                )
            time.sleep(1)
    if "failed" in runs.values():
        raise ServiceError(format_failure(DAG_ID, (task for each in tasks.values() for task in each), home))
    return time.monotonic() - start


def check_servers(supervisor: Supervisor) -> None:
    """Raise `ServiceError` if a server has ended, with the last error in the log of each ended process."""
    for name in supervisor.started_servers():
        status = supervisor.status(name)
        if not status.is_running:
            ended = [log for log in supervisor.logs(name) if log.stem not in status.processes]
            log_lines = "\n".join(log_line(log, last_error(log)) for log in ended)
            raise ServiceError(
                f"{name} is {status.state}\n{log_lines}\n`make demo` restarts what has stopped, "
                "and resumes; `make stop` stops everything."
            )


def await_queue(platform: Platform, console: Console, check: Callable[[], None], patience: float = 600) -> None:
    """Wait until no dataset is queued for persisting; `check` may raise.

    Raises `ServiceError` if none was persisted for `patience` seconds.
    """
    depth = 0

    def is_empty() -> bool:
        nonlocal depth
        before, depth = depth, platform.claims.depth()
        if depth:
            check()
        if depth not in (0, before):
            console.print(f"  {depth} datasets in the queue", highlight=False)
        return not depth

    if not wait_until(is_empty, patience, lambda: depth):
        raise ServiceError(
            f"{depth} datasets are still to be persisted, and none was persisted for {format_seconds(patience)}:"
            " `springline dataset list` lists them; the persister's log is in Airflow"
        )
    console.print("  the queue is empty", highlight=False)


def newest_committed(platform: Platform, prefix: str) -> list[Dataset]:
    """Return the newest committed generations of all paths with this prefix."""
    return platform.catalog.find(prefix=prefix, phase=Phase.COMMITTED, superseded=False)
