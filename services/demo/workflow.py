"""The workflow of the demo, as its commands run it: days as a backfill, watched; the queue of what wants persisting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path

from rich.console import Console

from springline.persistence.model.dataset import Dataset, Phase
from springline.persistence.platform import Platform
from springline.persistence.text.formatting import say_seconds
from springline.services.airflow_api import AirflowApi
from springline.services.demo.failure import log_line, told_failure
from springline.services.demo.progress import RunProgress
from springline.services.demo.wait import Patience, comes_true
from springline.services.errors import ServiceError
from springline.services.log_files import last_error
from springline.services.settings import ServiceSettings
from springline.services.supervisor import Supervisor
from springline.spark_jobs.settings import JobSettings

DAG_ID, PERSISTER, MAINTENANCE = "etl_lineage", "persister", "maintenance"
_OPERATIONS = "springline.spark_jobs.etl"
DAYS = tuple(date(2013, 1, 5) + timedelta(days=n) for n in range(3))
FILES, STATES = "etl/", "streams/"  # how the paths of the workflow's datasets begin, and those of the streams' states
_OWN = {
    "SPRINGLINE_STREAM_SAVE": "15",  # seconds: states are in the lineage soon
    "SPRINGLINE_STREAM_PACE": "0.2",  # seconds between two rounds
    "SPRINGLINE_STREAM_TASKS": "1",  # three streams share few cores with all the rest
}


def prepared() -> ServiceSettings:
    """The settings of the servers; what they start, and this process, has the demo's own where nothing is set.

    Raises `ServiceError` where there is to be no Airflow, or the flights' operations are not asked for.
    """
    settings = ServiceSettings()
    if "airflow" not in settings.servers:
        raise ServiceError("SPRINGLINE_SERVERS names no airflow, and the demo runs its workflow there")
    if _OPERATIONS not in JobSettings().operations:
        raise ServiceError(f"SPRINGLINE_OPERATIONS does not name {_OPERATIONS}, which the demo runs: name it there")
    os.environ["SPRINGLINE_HOME"] = str(settings.home)
    for name, value in {"SPRINGLINE_KAFKA": f"127.0.0.1:{settings.kafka_port}", **_OWN}.items():
        os.environ.setdefault(name, value)
    return settings


def run_days(
    api: AirflowApi,
    days: Sequence[date],
    console: Console,
    home: Path,
    beside: Callable[[RunProgress], None],
    patience: float = 900,
) -> float:
    """Run days as one backfill, and watch until all have ended; how long that took, in seconds.

    `beside` is called at every look: it may show more, and raise. Raises `ServiceError`, naming task and log, if a run
    failed, and if no task has changed its state for `patience` seconds.
    """
    api.pause(DAG_ID, False)
    api.end_backfills(DAG_ID)
    api.backfill(DAG_ID, days[0], days[-1], {}, runs_at_once=len(days))
    begun = time.monotonic()
    left = Patience(patience)
    with RunProgress(console) as progress:
        while True:
            beside(progress)
            runs = api.runs(DAG_ID, days[0], days[-1])
            tasks = {run_id: api.tasks(DAG_ID, run_id) for run_id in runs}
            for run_id in sorted(runs):
                progress.show(tasks[run_id][0].day if tasks[run_id] else run_id, tasks[run_id])
            if len(runs) == len(days) and all(state in ("success", "failed") for state in runs.values()):
                break
            if left.is_over((runs, tasks)):
                raise ServiceError(
                    f"no task of {DAG_ID} has changed its state for {say_seconds(patience)}; runs: "
                    f"{', '.join(f'{run_id} is {state}' for run_id, state in sorted(runs.items())) or 'none'}. "
                    "`springline logs airflow` tells what its parts are at"
                )
            time.sleep(1)
    if "failed" in runs.values():
        raise ServiceError(told_failure(DAG_ID, (task for each in tasks.values() for task in each), home))
    return time.monotonic() - begun


def check_servers(supervisor: Supervisor) -> None:
    """Raise `ServiceError`, with what the log of each process that has ended tells last, if a server has ended."""
    for name in supervisor.recorded():
        state = supervisor.state(name)
        if not state.running:
            ended = [log for log in supervisor.logs(name) if log.stem not in state.processes]
            told = "\n".join(log_line(log, last_error(log)) for log in ended)
            raise ServiceError(
                f"{name} is {state.words}\n{told}\n`make demo` starts again what has ended, and goes on; `make stop` "
                "ends all."
            )


def await_queue(platform: Platform, console: Console, check: Callable[[], None], patience: float = 600) -> None:
    """Wait until nothing wants persisting any more; `check` may raise."""
    depth = 0

    def empty() -> bool:
        nonlocal depth
        before, depth = depth, platform.claims.depth()
        if depth:
            check()
        if depth not in (0, before):
            console.print(f"  {depth} to go", highlight=False)
        return not depth

    if not comes_true(empty, patience, lambda: depth):
        raise ServiceError(
            f"{depth} datasets still want persisting, and none was persisted for {say_seconds(patience)}:"
            " `springline dataset list` tells which; the persister's log is in Airflow"
        )
    console.print("  the queue is empty", highlight=False)


def standing(platform: Platform, prefix: str) -> list[Dataset]:
    """The newest committed generations of all paths that begin so."""
    return platform.catalog.find(prefix=prefix, phase=Phase.COMMITTED, superseded=False)
